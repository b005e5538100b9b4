// The elements of a map: the canvas, its buttons, the line that tells how to draw, and words for
// those who cannot see it.

import { h, uid } from "../dom.js";

const SHAPED = new Intl.NumberFormat("en-GB");

const HINTS = {
  pointer: {
    polygon: "Click the corners, the first one again to finish. Hold Shift and drag for a box.",
    point: "Click a place.",
  },
  touch: { polygon: "Tap the corners, the first one again to finish.", point: "Tap a place." },
  keys: {
    polygon:
      "Arrows move the map, Space sets a corner, Enter finishes, Backspace undoes, Escape cancels.",
    point: "Arrows move the map, Space or Enter sets the point, Escape cancels.",
  },
};

export class Controls {
  /** @param {HTMLElement} host
   *  @param {string} label
   *  @param {Record<"closer" | "farther" | "fit" | "finish" | "back" | "cancel",
   *  () => void>} act */
  constructor(host, label, act) {
    const described = uid("map-summary");
    this.summary = h("p", { class: "map-summary", id: described });
    this.canvas = h("canvas", {
      class: "map-canvas",
      tabIndex: 0,
      role: "application",
      "aria-roledescription": "map",
      "aria-label": label,
      "aria-describedby": described,
    });
    this.words = h("span", { class: "map-words", role: "status", "aria-live": "polite" });
    this.finish = action("Finish", act.finish);
    this.back = action("Undo", act.back);
    const tools = h("span", { class: "map-tools" }, this.finish, this.back);
    tools.append(action("Cancel", act.cancel));
    this.hint = h("div", { class: "map-hint", hidden: true }, this.words, tools);
    this.buttons = h(
      "div",
      { class: "map-buttons", role: "group", "aria-label": "Zoom" },
      zoom("+", "Zoom in", act.closer),
      zoom("−", "Zoom out", act.farther),
      zoom("⤢", "Show everything", act.fit),
    );
    host.append(this.canvas, this.buttons, this.hint, this.summary);
  }

  /** Tell how to draw, or nothing. @param {"polygon" | "point" | null} kind
   *  @param {keyof typeof HINTS} by */
  guide(kind, by) {
    // Hiding the button that has the focus would lose it.
    if (kind === null && this.hint.contains(document.activeElement)) this.canvas.focus();
    this.hint.hidden = kind === null;
    this.finish.hidden = kind !== "polygon";
    this.back.hidden = kind !== "polygon";
    this.canvas.dataset.drawing = String(kind !== null);
    const text = kind === null ? "" : HINTS[by][kind];
    // A live region is read aloud whenever it is set, so only when it changes.
    if (this.words.textContent !== text) this.words.textContent = text;
  }

  /** What the pointer would do. @param {"pan" | "pick" | "move"} use */
  cursor(use) {
    this.canvas.dataset.cursor = use;
  }

  /** Say how much there is to see. @param {number} shown @param {number} total */
  count(shown, total) {
    const of = total > shown ? `The newest ${SHAPED.format(shown)} of ` : "";
    const text = `${of}${SHAPED.format(total)} ${total === 1 ? "area" : "areas"} on the map`;
    if (this.summary.textContent !== text) this.summary.textContent = text;
  }
}

/** @param {string} sign @param {string} label @param {() => void} click */
function zoom(sign, label, click) {
  const props = { type: "button", class: "map-button", title: label, "aria-label": label };
  return h("button", { ...props, on: { click } }, sign);
}

/** @param {string} label @param {() => void} click */
function action(label, click) {
  return h("button", { type: "button", class: "map-action", on: { click } }, label);
}
