// The filter of a stream as a form, made from the schema of its event type.
//
// Each control gives what `filterOf` (fields.js) turns into the wire's form; nothing given is no
// condition. A place is drawn on the map or typed.

import { h } from "../dom.js";
import { frame, rangeSlider } from "./field.js";
import { filterOf, parsePoint, parseRing, ringText } from "./fields.js";
import { byName, coordinates, Form, line } from "./form.js";

/**
 * @typedef {import("./form.js").Control} Control
 * @typedef {import("./form.js").Field} Field
 * @typedef {import("./form.js").Hooks} Hooks
 * @typedef {import("./form.js").Maker} Maker
 */

const ANY = { op: "any" };
const WORLD = "-90,-180 -90,180 90,180 90,-180 -90,-180";

export class FilterForm extends Form {
  /** @param {Hooks} hooks */
  constructor(hooks) {
    super(hooks, {
      text: (field) => plain(field, hooks),
      choice: choices,
      integer: numbers,
      number: numbers,
      date: (field) => plain(field, hooks, "date"),
      time: (field) => plain(field, hooks, "time"),
      polygon: (field) => place(field, hooks, true),
      cloud: (field) => place(field, hooks, false),
    });
  }

  /**
   * The identifier of the request. What is wrong is shown at its field, or, quietly, only taken
   * back where it is wrong no longer.
   */
  read({ quiet = false } = {}) {
    const { values, unread } = this.gather();
    const { identifier, problems: unfit } = filterOf(this.fields, values);
    const problems = byName(unfit, unread);
    for (const [name, control] of this.controls) {
      if (!quiet || !(name in problems)) control.frame.complain(problems[name] ?? "");
    }
    return { identifier, wrong: Object.keys(problems).length > 0 };
  }
}

/** @param {Field} field @param {Hooks} hooks @returns {Control} */
function plain(field, hooks, type = "text") {
  const { frame, input } = line(field, hooks, {
    type,
    placeholder: field.default ? `any, usually ${field.default}` : "any",
    ...(field.maxLength && type === "text" && { maxLength: field.maxLength }),
  });
  return {
    frame,
    read: () => (input.value === "" ? ANY : { op: "eq", value: input.value }),
    texts: () => (input.value === "" ? [] : [input.value]),
    write: ([text = ""]) => (input.value = text),
  };
}

/** @type {Maker} */
function choices(field, { changed }) {
  const box = frame(field, { group: true });
  const inputs = (field.values ?? []).map((value) =>
    h("input", { type: "checkbox", value, on: { change: changed } })
  );
  const chips = inputs.map((input) => h("label", { class: "chip" }, input, input.value));
  box.hold(h("div", { class: "chips" }, chips));
  const texts = () => inputs.filter((input) => input.checked).map((input) => input.value);
  return {
    frame: box,
    texts,
    write(texts) {
      for (const input of inputs) input.checked = texts.includes(input.value);
    },
    read() {
      const values = texts();
      if (values.length === 0) return ANY;
      return values.length === 1 ? { op: "eq", value: values[0] } : { op: "in", values };
    },
  };
}

/** @type {Maker} */
function numbers(field, { changed }) {
  const box = frame(field, { group: true });
  const whole = field.kind === "integer";
  /** @param {string} which @param {number} [limit] */
  const make = (which, limit) =>
    h("input", {
      type: "number",
      step: whole ? 1 : "any",
      placeholder: String(limit ?? "any"),
      "aria-label": `${field.name}, ${which}`,
      on: { input: () => typed() },
    });
  const from = make("at least", field.range?.[0]);
  const to = make("at most", field.range?.[1]);
  const list = h("input", {
    type: "text",
    hidden: true,
    placeholder: "such as 0, 24, 48",
    "aria-label": `${field.name}, one of`,
    autocomplete: "off",
    on: { input: changed },
  });
  const pair = h("div", { class: "pair" }, from, h("span", {}, "to"), to);
  const slider = field.range && rangeSlider({
    range: field.range,
    whole,
    label: field.name,
    changed(lower, upper) {
      from.value = lower;
      to.value = upper;
      changed();
    },
  });
  const mode = h(
    "button",
    { type: "button", class: "link", on: { click: () => swap() } },
    "one of",
  );
  box.head.append(mode);
  box.hold(...(slider ? [slider.element] : []), pair, list);

  function typed() {
    slider?.set(from.value, to.value);
    changed();
  }

  function swap() {
    const several = list.hidden;
    list.hidden = !several;
    pair.hidden = several;
    if (slider) slider.element.hidden = several;
    mode.textContent = several ? "a range" : "one of";
    changed();
  }

  const listed = () => list.value.split(/[\s,;]+/).filter(Boolean);
  return {
    frame: box,
    texts() {
      if (!list.hidden) return listed();
      const [low, high] = [from.value, to.value];
      if (low === "" && high === "") return [];
      return [low === high ? low : `${low}..${high}`];
    },
    write(texts) {
      if (texts.length > 1 === list.hidden) swap();
      list.value = texts.join(", ");
      const [low = "", high = low] = texts.length === 1 ? texts[0].split("..") : [];
      from.value = low;
      to.value = high;
      slider?.set(low, high);
    },
    read() {
      if (!list.hidden) {
        const values = listed();
        return values.length === 0 ? ANY : { op: "in", values };
      }
      if (from.validity.badInput || to.validity.badInput) throw new Error("This is not a number");
      if (from.value === "" && to.value === "") return ANY;
      if (to.value === "") return { op: "gte", value: from.value };
      if (from.value === "") return { op: "lte", value: to.value };
      if (from.value === to.value) return { op: "eq", value: from.value };
      return { op: "between", low: from.value, high: to.value };
    },
  };
}

/**
 * A place: drawn on the map, or typed as pairs of latitude and longitude.
 * @param {Field} field
 * @param {Hooks} hooks
 * @param {boolean} points whether a point may be asked for, not only an area
 * @returns {Control}
 */
function place(field, hooks, points) {
  /** @type {import("./form.js").Tool} */
  const point = ["Pick a point", "point", () => hooks.draw("point")];
  const { frame, text } = coordinates(field, "lat,lon lat,lon lat,lon", [
    ["Draw an area", "polygon", () => hooks.draw("polygon")],
    ...(points ? [point] : []),
    ["World", null, () => write(WORLD)],
    ["Clear", null, () => write("")],
  ]);
  text.rows = 2;
  text.addEventListener("input", () => written());
  let kind = "area";
  // Such an event type cannot be followed without a place; everywhere is a good one to begin with.
  if (field.required) text.value = WORLD;

  /** @param {string} pairs */
  function write(pairs) {
    text.value = pairs;
    written();
  }

  function written() {
    const pair = /^\s*[^\s,]+\s*,\s*[^\s,]+\s*$/.test(text.value);
    kind = pair && points ? "point" : "area";
    let known = null;
    try {
      known = said();
    } catch {
      // Half a coordinate: it is said when the form is read.
    }
    hooks.show(known);
    hooks.changed();
  }

  /** What the text says; null if nothing. */
  function said() {
    if (text.value.trim() === "") return null;
    return kind === "point"
      ? { point: parsePoint(text.value) }
      : { polygon: parseRing(text.value) };
  }

  return {
    frame,
    texts: () => (text.value.trim() === "" ? [] : [text.value.trim()]),
    write: ([pairs = field.required ? WORLD : ""]) => write(pairs),
    place: (drawn) => write(drawn?.point?.join(",") ?? ringText(drawn?.polygon ?? [])),
    read() {
      const known = said();
      return known === null ? ANY : { op: kind, ...known };
    },
  };
}
