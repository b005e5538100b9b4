// The replay view: read history, see how far it is, and play it back.

import { fill, h } from "../dom.js";
import { count } from "../moments.js";
import { Timeline } from "../results/timeline.js";
import { StreamView } from "./stream.js";

/** Notifications that can be played back; what is read beyond it is let go of. */
const HELD = 50_000;

/** @typedef {import("../stream/sse.js").Notification} Notification */

export class ReplayView extends StreamView {
  /** @type {Notification[]} */
  #history = [];
  /** @type {number[]} */
  #times = [];
  #shown = 0;
  /** @type {{begin: number, end: number} | null} */
  #target = null;

  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app, {
      title: "Replay",
      kind: "replay",
      image: "replay",
      verb: "Replay",
      idle: "Not reading",
      results: {
        label: "Replayed notifications",
        empty: "History appears here.",
        pausable: false,
      },
      from: ["first", "id", "date"],
      to: ["end", "id", "date"],
    });
    this.next = h(
      "button",
      { type: "button", hidden: true, on: { click: () => this.#more() } },
      "Read on",
    );
    this.progress = h("progress", { max: 1, value: 0, "aria-label": "History read" });
    this.words = h("span", { class: "soft small" });
    this.meter = h("div", { class: "meter", hidden: true }, this.progress, this.words, this.next);
    this.timeline = new Timeline({ moved: (until) => this.#until(until) });
    this.notices.element.before(this.meter);
    this.notices.element.after(this.timeline.element);
  }

  /** @override */
  empty() {
    super.empty();
    this.#history = [];
    this.#times = [];
    this.#shown = 0;
    this.#target = null;
    this.timeline.times = [];
    this.meter.hidden = true;
    this.next.hidden = true;
  }

  /** @override */
  toggle() {
    if (this.busy) {
      this.stop();
      this.#settle();
      return;
    }
    const request = this.query.read();
    if (request !== null) this.begin(request);
  }

  #more() {
    this.next.hidden = true;
    this.timeline.times = [];
    this.results.show(this.#history);
    this.running();
    this.follower?.more();
  }

  /** @override @param {Notification[]} notifications */
  received(notifications) {
    const room = HELD - this.#history.length;
    for (const item of notifications.slice(0, Math.max(0, room))) {
      this.#history.push(item);
      this.#times.push(Date.parse(item.time));
    }
    super.received(notifications);
    this.#measure();
  }

  /** @override @param {import("../stream/texts.js").Message} message */
  told(message) {
    super.told(message);
    if (message.kind === "opened") this.#aim(message.frame);
  }

  /** Which sequences are read, for the bar: what the server says, or what it last told.
   *  @param {any} frame */
  #aim(frame) {
    const known = this.app.overview?.event_types.find(
      (item) => item.event_type === this.query.eventType,
    );
    const end = frame.end_sequence ?? known?.last_sequence ?? null;
    const begin = Math.max(frame.from_sequence ?? 1, known?.first_sequence ?? 1);
    this.#target = end === null ? null : { begin, end };
    this.#measure();
  }

  #measure() {
    const number = this.results.count;
    const last = this.follower?.last ?? null;
    this.meter.hidden = false;
    if (this.#target === null) {
      this.progress.removeAttribute("value");
    } else if (last !== null) {
      const { begin, end } = this.#target;
      this.progress.value = Math.min(1, (last - begin + 1) / Math.max(1, end - begin + 1));
    }
    const held = number > HELD ? `; the first ${count(HELD)} can be played back` : "";
    const place = last === null ? "" : `, up to sequence ${count(last)}`;
    fill(this.words, `${count(number)} notifications${place}${held}`);
  }

  /** @override @param {import("../stream/follow.js").State} state */
  changed(state) {
    super.changed(state);
    if (state.phase === "ended") this.#ended(state.more);
  }

  /** @param {boolean} more */
  #ended(more) {
    this.#measure();
    this.next.hidden = !more;
    this.meter.hidden = !more; // the counters say the rest
    this.rest();
    this.#settle();
  }

  /** All is read: now it can be played back. */
  #settle() {
    this.timeline.times = this.#times;
    this.#shown = this.#history.length;
  }

  /** Show history up to a moment. @param {number} moment */
  #until(moment) {
    const number = after(this.#times, moment);
    if (number >= this.#shown) this.results.add(this.#history.slice(this.#shown, number));
    else this.results.show(this.#history.slice(0, number));
    this.#shown = number;
  }
}

/**
 * How many of the ascending times are not after a moment.
 * @param {number[]} times
 * @param {number} moment
 */
function after(times, moment) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}
