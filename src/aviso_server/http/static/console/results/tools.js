// What one does with the rows of a table: search them, choose columns, take them along, come back
// to the newest.

import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { count } from "../moments.js";
import { FORMATS } from "./export.js";

export class Tools {
  #hooks;

  /**
   * @param {object} hooks
   * @param {() => void} hooks.searched
   * @param {() => string[]} hooks.offered names of columns to choose from
   * @param {() => string[]} hooks.shown those that are shown
   * @param {(names: string[]) => void} hooks.choose
   * @param {(format: string) => void} hooks.save
   * @param {() => void} hooks.rewind
   */
  constructor(hooks) {
    this.#hooks = hooks;
    this.search = h("input", {
      type: "search",
      placeholder: "Search: words, severity>=4, payload.location~grib2",
      "aria-label": "Search in these notifications",
      autocomplete: "off",
      spellcheck: false,
      on: { input: hooks.searched },
    });
    this.found = h("span", { class: "soft small", role: "status" });
    this.names = h("fieldset", { "aria-label": "Columns" });
    this.columns = menu("Columns", this.names);
    this.columns.addEventListener("toggle", () => this.columns.open && this.#offer());
    const formats = Object.keys(FORMATS).map((format) =>
      h("button", { type: "button", on: { click: () => this.#save(format) } }, format)
    );
    this.exports = menu("Export", h("div", { class: "buttons" }, formats));
    this.newest = h(
      "button",
      { type: "button", hidden: true, on: { click: hooks.rewind } },
      icon("up"),
      "Newest",
    );
    this.element = h(
      "div",
      { class: "row-tools", role: "search" },
      this.search,
      this.found,
      this.newest,
      this.columns,
      this.exports,
    );
    addEventListener("keydown", (event) => this.#key(event));
  }

  /** How many of how many a search has found. @param {number} found @param {number} all */
  tell(found, all) {
    const text = this.search.value.trim() === "" ? "" : `${count(found)} of ${count(all)}`;
    if (this.found.textContent !== text) fill(this.found, text);
  }

  #offer() {
    const shown = this.#hooks.shown();
    const names = [...new Set([...shown, ...this.#hooks.offered()])];
    const boxes = names.map((name) =>
      h("input", { type: "checkbox", value: name, checked: shown.includes(name) })
    );
    for (const box of boxes) {
      box.addEventListener("change", () => {
        this.#hooks.choose(boxes.filter((other) => other.checked).map((other) => other.value));
      });
    }
    fill(this.names, boxes.map((box) => h("label", {}, box, box.value || "identifier")));
  }

  /** @param {string} format */
  #save(format) {
    this.exports.open = false;
    this.#hooks.save(format);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {Element} */ (event.target);
    const typing = target.closest("input, textarea, select, dialog") !== null;
    const visible = this.element.checkVisibility();
    if (event.key !== "/" || typing || !visible || event.ctrlKey || event.metaKey) return;
    this.search.focus();
    event.preventDefault();
  }
}

/** Something that opens below its name, and shuts when one turns elsewhere.
 *  @param {string} label @param {HTMLElement} content */
function menu(label, content) {
  const element = h(
    "details",
    { class: "menu" },
    h("summary", {}, label, icon("down")),
    h("div", { class: "menu-body" }, content),
  );
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.open) return;
    element.open = false;
    element.querySelector("summary")?.focus();
  });
  element.addEventListener("focusout", (event) => {
    const next = /** @type {Node | null} */ (event.relatedTarget);
    if (next !== null && !element.contains(next)) element.open = false;
  });
  return element;
}
