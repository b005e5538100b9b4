// What the server said besides notifications, in words; the newest few.

import { h } from "../dom.js";
import { clock } from "../moments.js";

const KEPT = 20;
const LOUD = new Set(["gap", "limit", "error", "lost"]);

export class Notices {
  constructor() {
    this.list = h("ol");
    this.element = h(
      "div",
      { class: "notices", hidden: true, role: "log", "aria-label": "What the server says" },
      this.list,
    );
  }

  /** @param {{kind: string, text: string}} message */
  add({ kind, text }) {
    this.element.hidden = false;
    const time = clock(new Date().toISOString());
    const loud = LOUD.has(kind) ? "loud" : "";
    this.list.prepend(h("li", { class: loud, dataset: { kind } }, h("time", {}, time), text));
    while (this.list.children.length > KEPT) this.list.lastChild?.remove();
  }

  clear() {
    this.list.replaceChildren();
    this.element.hidden = true;
  }
}
