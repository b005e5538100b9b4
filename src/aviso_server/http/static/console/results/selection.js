// The rows of the table: all that a view holds with the newest on top, or those that a search
// finds, or both in another order.

/** @import { Notification } from "../stream/sse.js" */
/** @typedef {(one: Notification, other: Notification) => number} Order */

/** Milliseconds after which what has come is put into another order than that of its coming. */
const SORTED = 500;

export class Selection {
  #buffer;
  #changed;
  /** @type {import("./search.js").Test | null} */
  #search = null;
  /** @type {Order | null} */
  #order = null;
  /** @type {Notification[] | null} the rows, from the top; null where they are the buffer's */
  #rows = null;
  #later = 0;

  /** @param {import("./buffer.js").Buffer} buffer
   *  @param {() => void} changed told when rows have changed by themselves */
  constructor(buffer, changed) {
    this.#buffer = buffer;
    this.#changed = changed;
  }

  get size() {
    return this.#rows === null ? this.#buffer.size : this.#rows.length;
  }

  /** @param {number} index 0 is on top */
  newest(index) {
    return this.#rows === null ? this.#buffer.newest(index) : this.#rows[index];
  }

  /** All rows, from the top. */
  all() {
    return this.#rows ?? this.#buffer.all().reverse();
  }

  /** @param {import("./search.js").Test | null} search @param {Order | null} order */
  choose(search, order) {
    this.#search = search;
    this.#order = order;
    this.#select();
  }

  /**
   * The buffer has got some and let go of others.
   * @param {Notification[]} added oldest first
   * @param {Notification[]} gone
   * @returns {number} how many rows came on top
   */
  follow(added, gone) {
    if (this.#rows === null) return added.length;
    if (this.#order !== null && this.#rows.length === 0) {
      this.#select();
      return 0;
    }
    if (this.#order !== null) {
      this.#later ||= setTimeout(() => {
        this.#later = 0;
        this.#select();
        this.#changed();
      }, SORTED);
      return 0;
    }
    const found = this.#search === null ? added : added.filter(this.#search);
    this.#rows.unshift(...found.toReversed());
    const left = new Set(gone);
    while (this.#rows.length > 0 && left.has(this.#rows[this.#rows.length - 1])) this.#rows.pop();
    return found.length;
  }

  /** The buffer is empty. */
  clear() {
    if (this.#rows !== null) this.#rows = [];
  }

  #select() {
    const free = this.#search === null && this.#order === null;
    const all = free ? [] : this.#buffer.all().reverse();
    const found = this.#search === null ? all : all.filter(this.#search);
    if (this.#order !== null) found.sort(this.#order);
    this.#rows = free ? null : found;
  }
}
