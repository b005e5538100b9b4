// The filter of a stream as a form, made from the schema of its event type.
//
// Each control gives what `filterOf` (fields.js) turns into the wire's form; nothing given is no
// condition. A place is drawn on the map or typed.

import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { frame, rangeSlider } from "./field.js";
import { filterOf, parsePoint, parseRing, ringText } from "./fields.js";

const ANY = { op: "any" };
const WORLD = "-90,-180 -90,180 90,180 90,-180 -90,-180";

export class FilterForm {
  #fields = [];
  #controls = new Map();

  /**
   * @param {{changed: () => void, draw: (kind: "polygon" | "point") => void,
   *   area: (place: object | null) => void}} hooks `draw` asks for a place on the map, `area` shows
   *   the one that is set
   */
  constructor(hooks) {
    this.hooks = hooks;
    this.element = h("div", { class: "fields" });
  }

  /** Begin anew with the fields of an event type. */
  set fields(fields) {
    this.#fields = fields;
    this.#controls = new Map(fields.map((field) => [field.name, this.#control(field)]));
    fill(this.element, [...this.#controls.values()].map((control) => control.frame.element));
    this.hooks.area(null);
  }

  /**
   * The identifier of the request. What is wrong is shown at its field, or, quietly, only taken
   * back where it is wrong no longer.
   */
  read({ quiet = false } = {}) {
    /** @type {Record<string, any>} */
    const values = {};
    /** @type {Record<string, string>} */
    const unread = {};
    for (const [name, control] of this.#controls) {
      try {
        values[name] = control.read();
      } catch (error) {
        unread[name] = error.message;
      }
    }
    const { identifier, problems: found } = filterOf(this.#fields, values);
    const problems = { ...found, ...unread };
    for (const [name, control] of this.#controls) {
      if (!quiet || !(name in problems)) control.frame.complain(problems[name] ?? "");
    }
    return { identifier, wrong: Object.keys(problems).length > 0 };
  }

  /** Show an error of the server at a field; false if there is no such field. */
  complain(name, text) {
    const control = this.#controls.get(name);
    if (control === undefined) return false;
    control.frame.complain(text);
    control.frame.element.scrollIntoView({ block: "nearest" });
    return true;
  }

  /** A place was drawn on the map. */
  drawn(place) {
    for (const control of this.#controls.values()) control.place?.(place);
  }

  #control(field) {
    const make = {
      choice: choices,
      integer: numbers,
      number: numbers,
      date: (item, changed) => plain(item, changed, "date"),
      time: (item, changed) => plain(item, changed, "time"),
      polygon: (item, changed) => place(item, changed, this.hooks, true),
      cloud: (item, changed) => place(item, changed, this.hooks, false),
    };
    return (make[field.kind] ?? plain)(field, () => this.hooks.changed());
  }
}

function plain(field, changed, type = "text") {
  const box = frame(field);
  const input = h("input", {
    id: box.id,
    type,
    placeholder: field.default ? `any, usually ${field.default}` : "any",
    maxLength: field.maxLength && type === "text" ? field.maxLength : undefined,
    autocomplete: "off",
    spellcheck: false,
    on: { input: changed },
  });
  if (!input.maxLength || input.maxLength < 0) input.removeAttribute("maxlength");
  box.hold(input);
  return {
    frame: box,
    read: () => (input.value === "" ? ANY : { op: "eq", value: input.value }),
  };
}

function choices(field, changed) {
  const box = frame(field, { group: true });
  const inputs = field.values.map((value) =>
    h("input", { type: "checkbox", value, on: { change: changed } })
  );
  const chips = inputs.map((input) => h("label", { class: "chip" }, input, input.value));
  box.hold(h("div", { class: "chips" }, chips));
  return {
    frame: box,
    read() {
      const values = inputs.filter((input) => input.checked).map((input) => input.value);
      if (values.length === 0) return ANY;
      return values.length === 1 ? { op: "eq", value: values[0] } : { op: "in", values };
    },
  };
}

function numbers(field, changed) {
  const box = frame(field, { group: true });
  const step = field.kind === "integer" ? 1 : "any";
  const make = (which, placeholder) =>
    h("input", {
      type: "number",
      step,
      placeholder,
      "aria-label": `${field.name}, ${which}`,
      on: { input: () => typed() },
    });
  const [low, high] = field.range ?? ["any", "any"];
  const from = make("at least", String(low));
  const to = make("at most", String(high));
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
    low,
    high,
    step: field.kind === "integer"
      ? Math.max(1, Math.floor((high - low) / 500))
      : (high - low) / 500,
    label: field.name,
    changed(lower, upper) {
      from.value = lower > low ? String(round(lower)) : "";
      to.value = upper < high ? String(round(upper)) : "";
      changed();
    },
  });
  const mode = h(
    "button",
    { type: "button", class: "link", on: { click: () => swap() } },
    "one of",
  );
  box.head.append(mode);
  box.hold(...[slider && slider.element, pair, list].filter(Boolean));

  function typed() {
    slider?.set(from.value === "" ? null : from.value, to.value === "" ? null : to.value);
    changed();
  }

  function swap() {
    const listed = list.hidden;
    list.hidden = !listed;
    pair.hidden = listed;
    if (slider) slider.element.hidden = listed;
    mode.textContent = listed ? "a range" : "one of";
    changed();
  }

  return {
    frame: box,
    read() {
      if (!list.hidden) {
        const values = list.value.split(/[\s,;]+/).filter(Boolean);
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

function round(value) {
  return Number(value.toPrecision(6));
}

/** A place: drawn on the map, or typed as pairs of latitude and longitude. */
function place(field, changed, hooks, points) {
  const box = frame(field, { group: true });
  const text = h("textarea", {
    rows: 2,
    spellcheck: false,
    placeholder: "lat,lon lat,lon lat,lon",
    "aria-label": "Coordinates, latitude first",
    on: { input: () => written() },
  });
  let kind = "area";
  const button = (label, image, what) =>
    h("button", { type: "button", on: { click: () => hooks.draw(what) } }, icon(image), label);
  const clear = h("button", { type: "button", on: { click: () => set(null) } }, "Clear");
  const tools = h(
    "div",
    { class: "buttons" },
    button("Draw an area", "polygon", "polygon"),
    points && button("Pick a point", "point", "point"),
    h("button", { type: "button", on: { click: () => write(WORLD) } }, "World"),
    clear,
  );
  box.hold(tools, text);
  // Such an event type cannot be followed without a place; everywhere is a good one to begin with.
  if (field.required) text.value = WORLD;

  function set(drawn) {
    kind = drawn?.point ? "point" : "area";
    text.value = drawn === null
      ? ""
      : drawn.point
      ? drawn.point.join(",")
      : ringText(drawn.polygon);
    hooks.area(drawn);
    changed();
  }

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
      // Half a coordinate: it is told when the form is read.
    }
    hooks.area(known);
    changed();
  }

  /** What the text says; null if nothing. */
  function said() {
    if (text.value.trim() === "") return null;
    return kind === "point"
      ? { point: parsePoint(text.value) }
      : { polygon: parseRing(text.value) };
  }

  return {
    frame: box,
    place: set,
    read() {
      const known = said();
      return known === null ? ANY : { op: kind, ...known };
    },
  };
}
