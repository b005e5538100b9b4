// What the two forms from a schema share: a control for each field, and what is wrong shown there.
//
// Field names come from a configuration and may be anything: what is kept by name has no prototype.

import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { frame } from "./field.js";

/**
 * @typedef {import("./fields.js").Field} Field
 * @typedef {import("../map/drawing.js").Drawn} Drawn
 * @typedef {Drawn | {points: import("./places.js").Point[]}} Shown
 */

/**
 * What is filled in for one field. `read` throws an error in words for it; `place` takes what was
 * drawn on the map. `texts` are what it says in the address, and `write` fills it in from there.
 * @typedef {object} Control
 * @property {ReturnType<typeof frame>} frame
 * @property {() => any} read
 * @property {() => string[]} [texts]
 * @property {(texts: string[]) => void} [write]
 * @property {(drawn: Drawn | null) => void} [place]
 */

/**
 * `draw` asks for a place on the map, `show` puts one there.
 * @typedef {{changed: () => void, draw: (kind: "polygon" | "point") => void,
 *   show: (place: Shown | null) => void}} Hooks
 */

/** @typedef {(field: Field, hooks: Hooks) => Control} Maker */

/**
 * A button: its label, its image, and what it does.
 * @typedef {[string, import("../icons.js").Name | null, () => void]} Tool
 */

export class Form {
  /** @type {Field[]} */
  fields = [];
  /** @type {Map<string, Control>} */
  controls = new Map();
  element = h("div", { class: "fields" });
  #hooks;
  #makers;

  /** @param {Hooks} hooks @param {Partial<Record<Field["kind"], Maker>> & {text: Maker}} makers */
  constructor(hooks, makers) {
    this.#hooks = hooks;
    this.#makers = makers;
  }

  /** Begin anew with the fields of an event type. @param {Field[]} fields */
  begin(fields) {
    this.fields = fields;
    this.controls = new Map(fields.map((field) => {
      const make = this.#makers[field.kind] ?? this.#makers.text;
      return [field.name, make(field, this.#hooks)];
    }));
    fill(this.element, [...this.controls.values()].map((control) => control.frame.element));
    this.#hooks.show(null);
  }

  /** Fill in what an address says. @param {import("../address.js").Given} given */
  write(given) {
    for (const [name, control] of this.controls) control.write?.(given.field(name));
  }

  /** Say in an address what is filled in. @param {import("../address.js").Given} given */
  spell(given) {
    for (const [name, control] of this.controls) given.setField(name, control.texts?.() ?? []);
  }

  /** What the fields say, and in words of which nothing can be read. */
  gather() {
    const values = byName();
    const unread = byName();
    for (const [name, control] of this.controls) {
      try {
        values[name] = control.read();
      } catch (error) {
        unread[name] = /** @type {Error} */ (error).message;
      }
    }
    return { values, unread };
  }

  /**
   * Show an error of the server at a field; false if there is no such field.
   * @param {string | null} name
   * @param {string} text
   */
  complain(name, text) {
    const control = this.find(name);
    control?.frame.complain(text);
    control?.frame.element.scrollIntoView({ block: "nearest" });
    return control !== undefined;
  }

  /** @param {string | null} name @returns {Control | undefined} */
  find(name) {
    return name === null ? undefined : this.controls.get(name);
  }

  /** A place was drawn on the map. @param {Drawn} place */
  drawn(place) {
    for (const control of this.controls.values()) control.place?.(place);
  }
}

/** @param {...Record<string, any>} all @returns {Record<string, any>} */
export function byName(...all) {
  return Object.assign(Object.create(null), ...all);
}

/**
 * A field of one line.
 * @param {Field} field
 * @param {Hooks} hooks
 * @param {{type?: string, placeholder: string, maxLength?: number}} props
 */
export function line(field, hooks, props) {
  const box = frame(field);
  const input = h("input", {
    id: box.id,
    type: "text",
    autocomplete: "off",
    spellcheck: false,
    on: { input: hooks.changed },
    ...props,
  });
  box.hold(input);
  return { frame: box, input };
}

/**
 * A field of places: as text, latitude first, with buttons.
 * @param {Field} field
 * @param {string} placeholder
 * @param {Tool[]} tools
 */
export function coordinates(field, placeholder, tools) {
  const box = frame(field, { group: true });
  const text = h("textarea", {
    rows: 3,
    spellcheck: false,
    placeholder,
    "aria-label": "Coordinates, latitude first",
  });
  const buttons = tools.map(([label, image, click]) =>
    h("button", { type: "button", on: { click } }, image && icon(image), label)
  );
  box.hold(h("div", { class: "buttons" }, buttons), text);
  return { frame: box, text };
}
