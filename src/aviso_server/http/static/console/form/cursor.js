// A start or an end point: a sequence, or a time in any form the server takes, with a calendar
// for who does not want to type.

import { h } from "../dom.js";
import { check, fromCalendar, toCalendar } from "../moments.js";
import { sequenceProblem } from "../request/request.js";
import { frame } from "./field.js";

const LABELS = {
  now: "now on",
  end: "the end of history",
  first: "the beginning",
  id: "sequence",
  date: "time",
};

/** @typedef {keyof typeof LABELS} Kind */

export class Cursor {
  #frame;

  /** @param {{name: string, kinds: Kind[], changed: () => void}} options */
  constructor({ name, kinds, changed }) {
    this.#frame = frame({ name });
    this.kind = h(
      "select",
      { id: this.#frame.id, on: { change: () => this.#turn(changed) } },
      kinds.map((kind) => h("option", { value: kind }, LABELS[kind])),
    );
    this.sequence = h("input", {
      type: "text",
      inputMode: "numeric",
      placeholder: "such as 120",
      "aria-label": `${name} sequence`,
      autocomplete: "off",
      on: { input: changed },
    });
    this.time = h("input", {
      type: "text",
      placeholder: "2026-03-04T10:00:00Z or 1772618400",
      "aria-label": `${name} time, UTC unless it says otherwise`,
      autocomplete: "off",
      spellcheck: false,
      on: { input: changed },
    });
    this.calendar = h("input", {
      type: "datetime-local",
      step: 1,
      class: "calendar",
      "aria-label": `${name} time from a calendar, UTC`,
      title: "Choose from a calendar, UTC",
      on: {
        input: () => {
          if (this.calendar.value === "") return;
          this.time.value = fromCalendar(this.calendar.value);
          changed();
        },
      },
    });
    this.times = h("div", { class: "times" }, this.time, this.calendar);
    this.#frame.hold(h("div", { class: "cursor" }, this.kind, this.sequence, this.times));
    this.element = this.#frame.element;
    this.#turn(() => {});
  }

  /** The word of the point that is offered first. */
  get first() {
    return this.kind.options[0].value;
  }

  /** What an address says of it: a sequence, a time, or the word for a point without either. */
  get text() {
    const kind = this.kind.value;
    if (kind === "id") return this.sequence.value.trim() || kind;
    if (kind !== "date") return kind;
    const checked = check(this.time.value);
    // Seconds since 1970 would be a sequence.
    if (checked.ok && checked.kind !== "date") return checked.instant.toISOString();
    return this.time.value.trim() || kind;
  }

  set text(text) {
    const known = [...this.kind.options].some((option) => option.value === text);
    const kind = known ? text : /^\+?\d+$/.test(text) ? "id" : "date";
    this.kind.value = kind;
    this.sequence.value = kind === "id" && !known ? text : "";
    this.time.value = kind === "date" && !known ? text : "";
    this.#turn(() => {});
  }

  /** @returns {{point: null | {id: string} | {date: string}, wrong: boolean}} */
  read({ quiet = false } = {}) {
    const problem = this.#problem();
    if (!quiet || problem === "") this.#frame.complain(problem);
    /** @type {Record<string, {id: string} | {date: string}>} */
    const points = {
      first: { id: "0" },
      id: { id: this.sequence.value.trim() },
      date: { date: this.time.value.trim() },
    };
    return { point: points[this.kind.value] ?? null, wrong: problem !== "" };
  }

  /** Show an error of the server here. @param {string} text */
  complain(text) {
    this.#frame.complain(text);
  }

  #problem() {
    if (this.kind.value === "id") return sequenceProblem(this.sequence.value.trim());
    if (this.kind.value !== "date") return "";
    const checked = check(this.time.value);
    if (!checked.ok) return `${checked.error[0].toUpperCase()}${checked.error.slice(1)}.`;
    this.calendar.value = toCalendar(checked.instant);
    return "";
  }

  /** @param {() => void} changed */
  #turn(changed) {
    this.sequence.hidden = this.kind.value !== "id";
    this.times.hidden = this.kind.value !== "date";
    changed();
  }
}
