// A table of notifications, newest on top, that stays quick however many there are: only the rows
// in view exist. Who has scrolled down keeps reading the same rows while new ones come in above.
//
// Keys: arrows, j and k, Page Up and Down, Home and End move; Enter or Space opens. A click on a
// head sorts.

import { fill, h, uid } from "../dom.js";

const ROW = 34;
/** Rows made above and below what is in view. */
const SPARE = 6;

/** @import { Notification } from "../stream/sse.js" */
/** @typedef {(item: Notification) => string} Text */
/**
 * `full` is all of a value of which `text` shows a part; `title` is what is said about it.
 * @typedef {{name: string, label: string, width: string, text: Text, full?: Text, title?: Text,
 *   kind?: string}} Column
 */
/** @typedef {{name: string, down: boolean}} Sorted */
/** @typedef {{element: HTMLElement, cells: HTMLElement[], item: Notification | null}} Row */

export class Table {
  #rowsOf;
  #open;
  #sort;
  /** @type {Column[]} */
  #columns = [];
  /** @type {Row[]} */
  #rows = [];
  #active = -1;
  /** @type {string | null} */
  #chosen = null;
  #asked = false;
  /** Where it is scrolled to and how high it is, as last told: asking would lay the page out. */
  #top = 0;
  #height = 0;
  #prefix = uid("row");

  /** It is scrolled away from the newest, or back. @type {(away: boolean) => void} */
  onscrolled = () => {};

  /** @param {{size: number, newest: (index: number) => Notification}} rowsOf
   *  @param {{label: string, empty: string, open: (item: Notification) => void,
   *   sort: (name: string) => void}} options */
  constructor(rowsOf, { label, empty, open, sort }) {
    this.#rowsOf = rowsOf;
    this.#open = open;
    this.#sort = sort;
    this.head = h("div", { class: "table-head", role: "row", "aria-rowindex": 1 });
    this.body = h("div", { class: "table-body", role: "rowgroup" });
    this.empty = h("p", { class: "table-empty" }, empty);
    this.element = h(
      "div",
      { class: "table", role: "grid", tabIndex: 0, "aria-label": label },
      h("div", { class: "table-top", role: "rowgroup" }, this.head),
      this.body,
      this.empty,
    );
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.body.addEventListener("click", (event) => this.#click(event));
    new ResizeObserver(() => this.#resized()).observe(this.element);
  }

  get columns() {
    return this.#columns;
  }

  /** @param {Column[]} columns @param {Sorted | null} sorted by which they are */
  show(columns, sorted) {
    this.#columns = columns;
    this.element.style.setProperty("--columns", columns.map((column) => column.width).join(" "));
    this.element.style.setProperty("--least", least(columns));
    fill(this.head, columns.map((column) => this.#headOf(column, sorted)));
    this.#rows = [];
    fill(this.body);
    this.#later();
  }

  /** @param {Column} column @param {Sorted | null} sorted */
  #headOf({ name, label, kind = "" }, sorted) {
    const here = sorted?.name === name;
    const click = () => this.#sort(name);
    return h(
      "span",
      {
        class: `cell ${kind}`,
        role: "columnheader",
        "aria-sort": here ? (sorted.down ? "descending" : "ascending") : "none",
      },
      h("button", { type: "button", class: "bare", tabIndex: -1, on: { click } }, label),
    );
  }

  /** The rows changed: `added` newer ones came on top. */
  refresh(added = 0) {
    if (this.#active >= 0) this.#active = Math.min(this.#active + added, this.#rowsOf.size - 1);
    this.#size();
    if (this.#top > ROW && added > 0) {
      this.#top += added * ROW;
      this.element.scrollTop = this.#top;
    }
    this.#draw();
  }

  /** Go to the newest. */
  rewind() {
    this.#top = 0;
    this.element.scrollTop = 0;
  }

  /** Mark the row of a notification; null marks none. @param {string | null} id */
  choose(id) {
    this.#chosen = id;
    this.#later();
  }

  /** Bring a notification into view, by its place counted from the newest. @param {number} index */
  reveal(index) {
    const top = index * ROW;
    const { scrollTop, clientHeight } = this.element;
    const room = clientHeight - this.head.offsetHeight;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + room) this.element.scrollTop = top + ROW - room;
  }

  #scrolled() {
    this.#top = this.element.scrollTop;
    this.onscrolled(this.#top > ROW);
    this.#later();
  }

  #resized() {
    this.#height = this.element.clientHeight;
    this.#later();
  }

  #size() {
    const size = this.#rowsOf.size;
    this.body.style.height = `${size * ROW}px`;
    this.element.setAttribute("aria-rowcount", String(size + 1));
    this.empty.hidden = size > 0;
  }

  #later() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.#draw();
    });
  }

  #draw() {
    this.#size();
    const first = Math.max(0, Math.floor(this.#top / ROW) - SPARE);
    const fits = Math.ceil(this.#height / ROW) + 2 * SPARE;
    const last = Math.min(this.#rowsOf.size, first + fits);
    while (this.#rows.length < last - first) this.#grow();
    this.#rows.forEach((row, place) => {
      const index = first + place;
      row.element.hidden = index >= last;
      if (index < last) this.#show(row, index);
    });
    const active = this.#active >= first && this.#active < last;
    if (active) this.element.setAttribute("aria-activedescendant", this.#rowId(this.#active));
    else this.element.removeAttribute("aria-activedescendant");
  }

  #grow() {
    const cells = this.#columns.map((column) =>
      h("span", { class: `cell ${column.kind ?? ""}`, role: "gridcell" })
    );
    const element = h("div", { class: "table-row", role: "row" }, cells);
    this.#rows.push({ element, cells, item: null });
    this.body.append(element);
  }

  /** @param {Row} row @param {number} index */
  #show(row, index) {
    const item = this.#rowsOf.newest(index);
    const { element } = row;
    element.style.transform = `translateY(${index * ROW}px)`;
    element.id = this.#rowId(index);
    element.setAttribute("aria-rowindex", String(index + 2));
    element.dataset.index = String(index);
    element.classList.toggle("active", index === this.#active);
    element.classList.toggle("chosen", item.id === this.#chosen);
    if (row.item === item) return;
    row.item = item;
    this.#columns.forEach((column, place) => {
      const text = column.text(item);
      row.cells[place].textContent = text;
      row.cells[place].title = column.title?.(item) ?? (text.length > 12 ? text : "");
    });
  }

  /** @param {number} index */
  #rowId(index) {
    return `${this.#prefix}-${index}`;
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const target = /** @type {Element} */ (event.target);
    const element = target.closest(".table-row");
    const row = this.#rows.find((row) => row.element === element);
    if (row === undefined || row.item === null) return;
    this.#active = Number(row.element.dataset.index);
    this.#open(row.item);
    this.#later();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const size = this.#rowsOf.size;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page };
    Object.assign(moves, { Home: -size, End: size });
    if (size === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) {
      this.#active = Math.max(0, Math.min(size - 1, this.#active + moves[event.key]));
      this.reveal(this.#active);
      this.#later();
    } else if ((event.key === "Enter" || event.key === " ") && this.#active >= 0) {
      this.#open(this.#rowsOf.newest(this.#active));
    } else return;
    event.preventDefault();
  }
}

/** The width that all columns need at least: head and rows have it, or they would not line up.
 *  @param {Column[]} columns */
function least(columns) {
  const widths = columns.map((column) => /[\d.]+rem/.exec(column.width)?.[0] ?? "0rem");
  return `calc(${widths.join(" + ")} + ${columns.length - 1} * var(--gap))`;
}
