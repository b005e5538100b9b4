// The few icons of the page, as strokes on a 24 by 24 grid.

import { svg } from "./dom.js";

const PATHS = {
  overview: "M4 5h7v6H4zM13 5h7v4h-7zM13 11h7v8h-7zM4 13h7v6H4z",
  live: "M12 12m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M7.8 16.2a6 6 0 0 1 0-8.4M16.2 7.8a6 6 0 0 1 0 8.4"
    + "M5 19a10 10 0 0 1 0-14M19 5a10 10 0 0 1 0 14",
  replay: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4.5h4.5M12 8v4.5l3 2",
  publish: "M4 12l16-7-5 15-3.5-6.2zM11.5 13.8L20 5",
  sun: "M12 12m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6L7 7M17 17"
    + "l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4",
  moon: "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5z",
  user: "M12 8m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0M4.5 20a7.5 7.5 0 0 1 15 0",
  play: "M8 5.5v13l10.5-6.5z",
  pause: "M8.5 5.5v13M15.5 5.5v13",
  stop: "M6.5 6.5h11v11h-11z",
  clear: "M5 7h14M10 7V5h4v2M7 7l.8 12h8.4L17 7",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10v10H9zM5 15V5h10",
  polygon: "M5 9l7-5 7 5-2.5 9h-9z",
  point: "M12 21s-6.5-6-6.5-11a6.5 6.5 0 0 1 13 0c0 5-6.5 11-6.5 11zM12 10m-2 0a2 2 0 1 0 4 0"
    + "a2 2 0 1 0-4 0",
  down: "M6 9l6 6 6-6",
  up: "M6 15l6-6 6 6",
};

/** @typedef {keyof typeof PATHS} Name */

/** An icon beside a text that says the same; screen readers pass over it. @param {Name} name */
export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" },
    svg("path", { d: PATHS[name] }),
  );
}
