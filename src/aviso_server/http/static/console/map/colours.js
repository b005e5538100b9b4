// The map's colours, which come from the style sheet: `--map-sea` and so on at the map's element.
// They are read through a probe, not as text, so that a colour may be anything CSS can compute.

const FALLBACKS = {
  sea: "#e6eef4",
  land: "#f9f7f2",
  coast: "#9fb0bd",
  border: "#d8d5cc",
  grid: "rgb(70 100 125 / 0.14)",
  shape: "#14548f",
  shapeFill: "rgb(20 84 143 / 0.14)",
  hot: "#d9480f",
  area: "#7b2d8e",
  areaFill: "rgb(123 45 142 / 0.10)",
  text: "#5d7183",
};

/** @typedef {Record<keyof typeof FALLBACKS, string>} Colours */

/** The colours that hold for an element now. @param {HTMLElement} host @returns {Colours} */
export function coloursOf(host) {
  const probe = document.createElement("span");
  probe.hidden = true;
  host.append(probe);
  const entries = Object.entries(FALLBACKS).map(([name, fallback]) => {
    const property = name.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`);
    probe.style.color = `var(--map-${property}, ${fallback})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return /** @type {Colours} */ (Object.fromEntries(entries));
}
