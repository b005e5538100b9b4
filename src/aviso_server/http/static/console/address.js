// The address is the state of the page: `#view/event type?field=value&.own=value`. A reload, a
// copied link, a bookmark and the way back show the same again.
//
// Fields of an event type stand under their names, several values as several parameters. What the
// page itself adds begins with a dot; a field whose name does, too, is written with one more.

/** @typedef {{view: string, eventType?: string, given: Given}} Place */

/** What a link may have unchanged behind its hash, to be read by people. */
const PLAIN = /%(2C|3A|40|2F)/g;

export class Given {
  #parameters;

  /** @param {string} [text] behind the question mark; anybody may have written it */
  constructor(text = "") {
    this.#parameters = new URLSearchParams(text);
  }

  get empty() {
    return this.#parameters.size === 0;
  }

  /** What is said of a field. @param {string} name @returns {string[]} */
  field(name) {
    return this.#parameters.getAll(fieldKey(name));
  }

  /** @param {string} name @param {string[]} texts */
  setField(name, texts) {
    for (const text of texts) this.#parameters.append(fieldKey(name), text);
  }

  /** What the page added under a name; null if nothing. @param {string} name */
  own(name) {
    return this.#parameters.get(`.${name}`);
  }

  /** @param {string} name @param {string | null} text null takes it away */
  setOwn(name, text) {
    if (text === null) this.#parameters.delete(`.${name}`);
    else this.#parameters.set(`.${name}`, text);
  }

  /** The same without some of what the page added. @param {...string} names */
  without(...names) {
    const others = new Given(this.#parameters.toString());
    for (const name of names) others.setOwn(name, null);
    return others;
  }

  toString() {
    return this.#parameters.toString().replace(PLAIN, decodeURIComponent);
  }
}

/** @param {string} hash of the address @returns {Place} */
export function placeAt(hash) {
  const [path, ...rest] = hash.slice(1).split("?");
  const [view = "", eventType] = decoded(path);
  return { view, eventType, given: new Given(rest.join("?")) };
}

/** @param {Place} place */
export function addressOf({ view, eventType, given }) {
  const path = eventType === undefined ? view : `${view}/${encodeURIComponent(eventType)}`;
  return given.empty ? `#${path}` : `#${path}?${given}`;
}

/**
 * The address of one notification: it is read again and opened.
 * @param {{id: string, sequence: number | string, identifier: Record<string, any>}} one
 * @param {string} eventType
 * @param {import("./form/fields.js").Field[]} fields of the event type
 */
export function addressOfOne({ id, sequence, identifier }, eventType, fields) {
  const given = new Given();
  for (const { name, kind, required } of fields) {
    // Without these nothing can be read; a place that is required is the world unless it is said.
    const plain = required && kind !== "polygon" && kind !== "cloud";
    if (plain && Object.hasOwn(identifier, name)) given.setField(name, [String(identifier[name])]);
  }
  given.setOwn("from", String(sequence));
  given.setOwn("to", String(sequence));
  given.setOwn("run", "");
  given.setOwn("open", id);
  return addressOf({ view: "replay", eventType, given });
}

/** @param {string} path */
function decoded(path) {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    return [];
  }
}

/** @param {string} name */
function fieldKey(name) {
  return name.startsWith(".") ? `.${name}` : name;
}
