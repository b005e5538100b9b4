// How many per second, over the last few seconds.

const WINDOW_S = 5;

export class Rate {
  /** Counts by whole second, in a ring. */
  #counts = new Array(WINDOW_S + 1).fill(0);
  #second = 0;

  /** @param {number} number @param {number} now milliseconds of a steady clock */
  add(number, now) {
    this.#turn(now);
    this.#counts[this.#second % this.#counts.length] += number;
  }

  /** The rate over the last full seconds. @param {number} now */
  perSecond(now) {
    this.#turn(now);
    const running = this.#counts[this.#second % this.#counts.length];
    return (this.#counts.reduce((sum, item) => sum + item, 0) - running) / WINDOW_S;
  }

  /** The rate as text. @param {number} now */
  text(now) {
    const rate = this.perSecond(now);
    return rate === 0 || rate >= 10 ? String(Math.round(rate)) : rate.toFixed(1);
  }

  /** @param {number} now */
  #turn(now) {
    const second = Math.floor(now / 1000);
    const passed = Math.min(second - this.#second, this.#counts.length);
    for (let step = 1; step <= passed; step += 1) {
      this.#counts[(this.#second + step) % this.#counts.length] = 0;
    }
    if (passed > 0) {
      // A long silence empties the whole ring, wherever it stood.
      if (passed === this.#counts.length) this.#counts.fill(0);
      this.#second = second;
    }
  }
}
