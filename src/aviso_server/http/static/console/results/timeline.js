// History on a line: how much there was when, a slider to any moment of it, and a play button.
//
// Rules
// - The line knows only times. Whoever owns the notifications is told up to which moment to show
//   them, at most once per frame.
// - Playing ends at the end; at the end, it begins again from the start.

import { fill, h, svg } from "../dom.js";
import { icon } from "../icons.js";
import { stamp } from "../moments.js";

const BINS = 160;
const STEPS = 10_000;
const WHOLE_S = 20;
/** Milliseconds of history per second of playing; 0: all of it in WHOLE_S seconds. */
const SPEEDS = [
  [0, `all in ${WHOLE_S} s`],
  [1000, "real time"],
  [60_000, "1 min per second"],
  [600_000, "10 min per second"],
  [3_600_000, "1 h per second"],
  [86_400_000, "1 day per second"],
];

export class Timeline {
  /** @type {number[]} */
  #times = [];
  #moved;
  #playing = false;

  /** @param {{moved: (until: number) => void}} hooks `until` in milliseconds of the epoch */
  constructor({ moved }) {
    this.#moved = moved;
    this.bars = h("div", { class: "bars" });
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: STEPS,
      value: STEPS,
      "aria-label": "Moment of history",
      on: { input: () => this.#pulled() },
    });
    this.now = h("output", { class: "mono" });
    this.begin = h("span", { class: "mono" });
    this.end = h("span", { class: "mono" });
    this.button = h("button", { type: "button", on: { click: () => this.#toggle() } });
    this.speed = h(
      "select",
      { "aria-label": "Speed" },
      SPEEDS.map(([value, label]) => h("option", { value }, label)),
    );
    this.element = h(
      "section",
      { class: "timeline", hidden: true, "aria-label": "Play history back" },
      h("div", { class: "controls" }, this.button, this.speed, this.now),
      h("div", { class: "line" }, this.bars, this.slider),
      h("div", { class: "ends soft small" }, this.begin, this.end),
    );
    this.#shown();
  }

  /** @param {number[]} times of all notifications, ascending, in milliseconds of the epoch */
  set times(times) {
    this.#stop();
    this.#times = times;
    this.element.hidden = times.length < 2;
    if (times.length < 2) return;
    fill(this.bars, this.#histogram());
    fill(this.begin, short(times[0]));
    fill(this.end, short(this.#last));
    this.slider.value = String(STEPS);
    this.#tell();
  }

  get #first() {
    return this.#times[0];
  }

  get #last() {
    return this.#times[this.#times.length - 1];
  }

  get #span() {
    return Math.max(1, this.#last - this.#first);
  }

  #until() {
    const share = Number(this.slider.value) / STEPS;
    return share >= 1 ? this.#last : this.#first + share * this.#span;
  }

  #pulled() {
    this.#stop();
    this.#tell();
    this.#moved(this.#until());
  }

  #tell() {
    const text = short(this.#until());
    fill(this.now, text);
    this.slider.setAttribute("aria-valuetext", text);
  }

  #toggle() {
    if (this.#playing) {
      this.#stop();
      return;
    }
    this.#playing = true;
    this.#shown();
    if (Number(this.slider.value) >= STEPS) this.slider.value = "0";
    this.#play(this.#until());
  }

  /** @param {number} at */
  #play(at) {
    let before = performance.now();
    let reached = at;
    /** @param {number} now */
    const frame = (now) => {
      if (!this.#playing) return;
      const speed = Number(this.speed.value) || this.#span / WHOLE_S;
      reached += ((now - before) / 1000) * speed;
      before = now;
      this.slider.value = String(Math.min(STEPS, ((reached - this.#first) / this.#span) * STEPS));
      this.#tell();
      this.#moved(Math.min(reached, this.#last));
      if (reached >= this.#last) this.#stop();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  #stop() {
    this.#playing = false;
    this.#shown();
  }

  #shown() {
    fill(this.button, icon(this.#playing ? "pause" : "play"), this.#playing ? "Pause" : "Play");
  }

  #histogram() {
    const counts = new Array(BINS).fill(0);
    for (const time of this.#times) {
      counts[Math.min(BINS - 1, Math.floor(((time - this.#first) / this.#span) * BINS))] += 1;
    }
    const highest = Math.max(...counts);
    const bars = counts.map((number, place) => {
      const height = number === 0 ? 0 : Math.max(2, Math.sqrt(number / highest) * 36);
      return svg("rect", { x: place, y: 36 - height, width: 0.8, height });
    });
    const box = { viewBox: `0 0 ${BINS} 36`, preserveAspectRatio: "none", "aria-hidden": "true" };
    return svg("svg", box, ...bars);
  }
}

/** @param {number} ms */
function short(ms) {
  return stamp(new Date(ms).toISOString());
}
