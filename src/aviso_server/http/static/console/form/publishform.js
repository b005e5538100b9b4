// A notification as a form, made from the schema of its event type: the facts and a payload.

import { h } from "../dom.js";
import { frame } from "./field.js";
import { announcementOf, parsePoints, parseRing, ringText } from "./fields.js";
import { byName, coordinates, Form, line } from "./form.js";

/**
 * @typedef {import("./form.js").Control} Control
 * @typedef {import("./form.js").Field} Field
 * @typedef {import("./form.js").Hooks} Hooks
 * @typedef {import("./form.js").Maker} Maker
 * @typedef {import("./places.js").Point} Point
 */

/**
 * `unread` says of which fields no JSON can be made, `hints` what else the server will not like.
 * @typedef {{identifier: Record<string, any>, payload: any, unread: Record<string, string>,
 *   hints: Record<string, string>}} Read
 */

export class PublishForm extends Form {
  #changed;
  /** @type {ReturnType<typeof payloadOf> | null} */
  #payload = null;

  /** @param {Hooks} hooks */
  constructor(hooks) {
    super(hooks, {
      text: (field) => plain(field, hooks),
      choice,
      integer: number,
      number,
      date: (field) => plain(field, hooks, "date"),
      time: (field) => plain(field, hooks, "time"),
      polygon: ring,
      cloud,
    });
    this.#changed = hooks.changed;
  }

  /**
   * Begin anew with the fields of an event type.
   * @param {Field[]} fields
   * @param {boolean} [payloadRequired]
   * @override
   */
  begin(fields, payloadRequired = false) {
    // A notification has every field of its schema, unless the server fills it in.
    super.begin(fields.map((field) => ({ ...field, required: field.default === null })));
    this.#payload = payloadOf(payloadRequired, this.#changed);
    this.element.append(this.#payload.frame.element);
  }

  /** The facts and the payload as they were given: the server decides. @returns {Read} */
  read() {
    const { values, unread } = this.gather();
    let payload;
    try {
      payload = this.#payload?.read();
    } catch (error) {
      unread.payload = /** @type {Error} */ (error).message;
    }
    const filled = new Set(this.fields.filter((field) => !field.required).map(({ name }) => name));
    const facts = Object.entries(values).filter(([name, value]) =>
      value !== "" || filled.has(name)
    );
    const hints = byName(announcementOf(this.fields, values).problems);
    if (payload === undefined && this.#payload?.required) hints.payload = "A payload is wanted.";
    return { identifier: Object.fromEntries(facts), payload, unread, hints };
  }

  /** Take back what was said of fields that are right now. @param {Read} read */
  relieve({ unread, hints }) {
    for (const name of [...this.controls.keys(), "payload"]) {
      if (!(name in unread) && !(name in hints)) this.find(name)?.frame.complain("");
    }
  }

  /** @override @param {string | null} name @returns {Control | undefined} */
  find(name) {
    return super.find(name) ?? (name === "payload" && this.#payload || undefined);
  }
}

/** @param {Field} field @param {Hooks} hooks @returns {Control} */
function plain(field, hooks, type = "text") {
  const { frame, input } = line(field, hooks, { type, placeholder: field.default ?? "" });
  return { frame, read: () => input.value };
}

/** @type {Maker} */
function choice(field, { changed }) {
  const box = frame(field);
  const options = [field.required ? "choose" : "none", ...(field.values ?? [])];
  const select = h(
    "select",
    { id: box.id, on: { change: changed } },
    options.map((text, place) => h("option", { value: place === 0 ? "" : text }, text)),
  );
  box.hold(select);
  return { frame: box, read: () => select.value };
}

/** @type {Maker} */
function number(field, { changed }) {
  const box = frame(field);
  const whole = field.kind === "integer";
  const input = h("input", {
    id: box.id,
    type: "number",
    step: whole ? 1 : "any",
    placeholder: field.range ? `${field.range[0]} to ${field.range[1]}` : "",
    on: { input: () => moved(slider, input.value) },
  });
  const slider = field.range && h("input", {
    type: "range",
    class: "plain-slider",
    min: field.range[0],
    max: field.range[1],
    step: whole ? 1 : (field.range[1] - field.range[0]) / 500,
    value: field.range[0],
    "aria-label": `${field.name}, by slider`,
    on: { input: () => moved(input, slider?.value ?? "") },
  });
  box.hold(input, ...(slider ? [slider] : []));

  /** @param {HTMLInputElement | null} other @param {string} value */
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

/** @type {Maker} */
function ring(field, hooks) {
  const places = typed(field, hooks, {
    placeholder: "lat,lon lat,lon lat,lon",
    draw: ["Draw on the map", "polygon"],
    parse: parseRing,
    shown: (polygon) => ({ polygon }),
  });
  return { ...places, place: (drawn) => drawn?.polygon && places.set(ringText(drawn.polygon)) };
}

/** @type {Maker} */
function cloud(field, hooks) {
  const places = typed(field, hooks, {
    placeholder: "lat,lon on each line",
    draw: ["Add a point on the map", "point"],
    parse: parsePoints,
    shown: (points) => ({ points }),
  });
  return { ...places, place: (drawn) => drawn?.point && places.add(drawn.point.join(",")) };
}

/**
 * Places as text, which the map shows as far as they can be read.
 * @param {Field} field
 * @param {Hooks} hooks
 * @param {{placeholder: string, draw: [string, "polygon" | "point"],
 *   parse: (text: string) => Point[], shown: (points: Point[]) => import("./form.js").Shown}} how
 */
function typed(field, hooks, { placeholder, draw: [label, kind], parse, shown }) {
  const { frame, text } = coordinates(field, placeholder, [
    [label, kind, () => hooks.draw(kind)],
    ["Clear", "clear", () => set("")],
  ]);
  text.addEventListener("input", () => show());
  const read = () => (text.value.trim() === "" ? "" : parse(text.value));

  /** @param {string} written */
  function set(written) {
    text.value = written;
    show();
  }

  function show() {
    let place = null;
    try {
      const points = read();
      if (points !== "") place = shown(points);
    } catch {
      // Half a coordinate: it is said when the form is read.
    }
    hooks.show(place);
    hooks.changed();
  }

  /** @param {string} more */
  const add = (more) => set([text.value.trim(), more].filter(Boolean).join("\n"));
  return { frame, read, set, add };
}

/**
 * The payload: JSON if it reads as JSON, else the text itself.
 * @param {boolean} required
 * @param {() => void} changed
 */
function payloadOf(required, changed) {
  const box = frame({ name: "payload", description: "any JSON, or plain text", required });
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
    required,
    /** undefined: none. */
    read() {
      const said = text.value.trim();
      if (said === "") return undefined;
      try {
        return JSON.parse(said);
      } catch (error) {
        // What begins like JSON was meant as JSON; a mistake in it must not become a text.
        if (/^[[{"]/.test(said)) {
          throw new Error(`Not JSON: ${/** @type {Error} */ (error).message}`);
        }
        return text.value;
      }
    },
  };
}
