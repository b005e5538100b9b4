// A notification as a form, made from the schema of its event type: the facts and a payload.

import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { frame } from "./field.js";
import { announcementOf, parsePoints, parseRing, ringText } from "./fields.js";

const PAYLOAD = { name: "payload", description: "any JSON, or plain text" };

export class PublishForm {
  #fields = [];
  #controls = new Map();

  /**
   * @param {{changed: () => void, draw: (kind: "polygon" | "point") => void,
   *   show: (place: object | null) => void}} hooks `show` puts the place on the map
   */
  constructor(hooks) {
    this.hooks = hooks;
    this.element = h("div", { class: "fields" });
  }

  /** Begin anew with the fields of an event type. */
  begin(fields, payloadRequired) {
    // A notification has every field of its schema, unless the server fills it in.
    this.#fields = fields.map((field) => ({ ...field, required: field.default === null }));
    this.#controls = new Map(this.#fields.map((field) => [field.name, this.#control(field)]));
    this.payload = payload({ ...PAYLOAD, required: payloadRequired }, this.hooks.changed);
    const all = [...this.#controls.values(), this.payload];
    fill(this.element, all.map((control) => control.frame.element));
    this.hooks.show(null);
  }

  /**
   * The facts and the payload as they were given: the server is the judge of them.
   *
   * `unread` says of which fields no JSON can be made, `hints` what else the server will not like.
   */
  read() {
    /** @type {Record<string, any>} */
    const given = {};
    /** @type {Record<string, string>} */
    const unread = {};
    let payload;
    const read = (name, take) => {
      try {
        take();
      } catch (error) {
        unread[name] = error.message;
      }
    };
    for (const [name, control] of this.#controls) read(name, () => (given[name] = control.read()));
    read("payload", () => (payload = this.payload.read()));
    const filled = new Set(this.#fields.filter((field) => !field.required).map(({ name }) => name));
    const facts = Object.entries(given).filter(([name, value]) => value !== "" || filled.has(name));
    const hints = announcementOf(this.#fields, given).problems;
    if (payload === undefined && this.payload.required) hints.payload = "A payload is wanted.";
    return { identifier: Object.fromEntries(facts), payload, unread, hints };
  }

  /** Take back what was said of fields that are right now. */
  relieve({ unread, hints }) {
    for (const [name, control] of [...this.#controls, ["payload", this.payload]]) {
      if (!(name in unread) && !(name in hints)) control.frame.complain("");
    }
  }

  /** Show an error of the server at a field; false if there is no such field. */
  complain(name, text) {
    const control = this.#controls.get(name) ?? (name === "payload" ? this.payload : undefined);
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
    const changed = () => this.hooks.changed();
    const make = {
      choice: choice,
      integer: number,
      number: number,
      date: (item) => plain(item, changed, "date"),
      time: (item) => plain(item, changed, "time"),
      polygon: (item) => ring(item, changed, this.hooks),
      cloud: (item) => cloud(item, changed, this.hooks),
    };
    return (make[field.kind] ?? plain)(field, changed);
  }
}

function plain(field, changed, type = "text") {
  const box = frame(field);
  const input = h("input", {
    id: box.id,
    type,
    placeholder: field.default ?? "",
    autocomplete: "off",
    spellcheck: false,
    on: { input: changed },
  });
  box.hold(input);
  return { frame: box, read: () => input.value };
}

function choice(field, changed) {
  const box = frame(field);
  const options = [field.required ? "choose" : "none", ...field.values];
  const select = h(
    "select",
    { id: box.id, on: { change: changed } },
    options.map((text, place) => h("option", { value: place === 0 ? "" : text }, text)),
  );
  box.hold(select);
  return { frame: box, read: () => select.value };
}

function number(field, changed) {
  const box = frame(field);
  const step = field.kind === "integer" ? 1 : "any";
  const limits = field.range ? `${field.range[0]} to ${field.range[1]}` : "";
  const input = h("input", {
    id: box.id,
    type: "number",
    step,
    placeholder: limits,
    on: { input: () => moved(slider, input.value) },
  });
  const slider = field.range && h("input", {
    type: "range",
    class: "plain-slider",
    min: field.range[0],
    max: field.range[1],
    step: field.kind === "integer" ? 1 : (field.range[1] - field.range[0]) / 500,
    value: field.range[0],
    "aria-label": `${field.name}, by slider`,
    on: { input: () => moved(input, slider.value) },
  });
  box.hold(...[input, slider].filter(Boolean));

  function moved(other, value) {
    if (other && value !== "") other.value = value;
    changed();
  }

  return {
    frame: box,
    read() {
      if (input.validity.badInput) throw new Error("This is not a number");
      return input.value;
    },
  };
}

function ring(field, changed, hooks) {
  const { box, text } = coordinates(field, "lat,lon lat,lon lat,lon", [
    ["Draw on the map", "polygon", () => hooks.draw("polygon")],
    ["Clear", "clear", () => place(null)],
  ]);
  text.addEventListener("input", () => place(read(true), true));

  function place(drawn, typed = false) {
    if (drawn?.point) return;
    if (!typed) text.value = drawn === null ? "" : ringText(drawn.polygon);
    hooks.show(drawn);
    changed();
  }

  function read(quiet = false) {
    if (text.value.trim() === "") return null;
    try {
      return { polygon: parseRing(text.value) };
    } catch (error) {
      if (quiet) return null;
      throw error;
    }
  }

  return { frame: box, place, read: () => read()?.polygon ?? "" };
}

function cloud(field, changed, hooks) {
  const { box, text } = coordinates(field, "lat,lon on each line", [
    ["Add a point on the map", "point", () => hooks.draw("point")],
    ["Clear", "clear", () => clear()],
  ]);
  text.addEventListener("input", () => told());

  function clear() {
    text.value = "";
    told();
  }

  function place(drawn) {
    if (!drawn?.point) return;
    text.value = [text.value.trim(), drawn.point.join(",")].filter(Boolean).join("\n");
    told();
  }

  function told() {
    let points = null;
    try {
      points = text.value.trim() === "" ? null : parsePoints(text.value);
    } catch {
      // Half a coordinate: it is told when the form is read.
    }
    hooks.show(points === null ? null : { points });
    changed();
  }

  return {
    frame: box,
    place,
    read: () => (text.value.trim() === "" ? "" : parsePoints(text.value)),
  };
}

function coordinates(field, placeholder, tools) {
  const box = frame(field, { group: true });
  const text = h("textarea", {
    rows: 3,
    spellcheck: false,
    placeholder,
    "aria-label": "Coordinates, latitude first",
  });
  const buttons = tools.map(([label, image, click]) =>
    h("button", { type: "button", on: { click } }, icon(image), label)
  );
  box.hold(h("div", { class: "buttons" }, buttons), text);
  return { box, text };
}

/** The payload: JSON if it reads as JSON, else the text itself. */
function payload(field, changed) {
  const box = frame(field);
  const text = h("textarea", {
    id: box.id,
    rows: 5,
    spellcheck: false,
    placeholder: '{"location": "https://…"}',
    on: { input: changed },
  });
  box.hold(text);
  return {
    frame: box,
    required: field.required,
    /** undefined: none. */
    read() {
      const said = text.value.trim();
      if (said === "") return undefined;
      try {
        return JSON.parse(said);
      } catch (error) {
        // What begins like JSON was meant as JSON; a mistake in it must not become a text.
        if (/^[[{"]/.test(said)) throw new Error(`Not JSON: ${error.message}`);
        return text.value;
      }
    },
  };
}
