// The notifications a view holds: the newest up to a limit, in the order they came.
//
// Appending is cheap and so is looking at one; what is over the limit goes in larger pieces.

/** @typedef {import("../stream/sse.js").Notification} Notification */

export class Buffer {
  /** @type {Notification[]} */
  #items = [];
  #from = 0;

  /** @param {number} limit how many are kept */
  constructor(limit = 10_000) {
    this.limit = limit;
    /** How many came since the last clear. */
    this.total = 0;
  }

  get size() {
    return this.#items.length - this.#from;
  }

  /** Whether older ones were let go of. */
  get capped() {
    return this.total > this.size;
  }

  /** @param {Notification[]} more @returns {Notification[]} those that had to go */
  add(more) {
    this.total += more.length;
    for (const item of more) this.#items.push(item);
    const over = Math.max(0, this.size - this.limit);
    const gone = this.#items.slice(this.#from, this.#from + over);
    this.#from += over;
    if (this.#from > this.limit / 2) {
      this.#items = this.#items.slice(this.#from);
      this.#from = 0;
    }
    return gone;
  }

  /** @param {number} index 0 is the newest */
  newest(index) {
    return this.#items[this.#items.length - 1 - index];
  }

  /** All that are kept, oldest first. */
  all() {
    return this.#items.slice(this.#from);
  }

  clear() {
    this.#items = [];
    this.#from = 0;
    this.total = 0;
  }
}
