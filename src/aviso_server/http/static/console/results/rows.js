// The rows of a view and what one does with them: which are shown, in which order, with which
// columns; and the way of all this into the address and back.

import { columnsOf, orderBy, payloadPaths, usualNames } from "./columns.js";
import { FORMATS, save } from "./export.js";
import { searchOf } from "./search.js";
import { Selection } from "./selection.js";
import { Table } from "./table.js";
import { Tools } from "./tools.js";

/** @import { Notification } from "../stream/sse.js" */

export class Rows {
  #buffer;
  #changed;
  #selection;
  /** @type {import("../form/fields.js").Field[]} */
  #fields = [];
  /** @type {string[] | null} columns that the reader chose */
  #chosen = null;
  /** @type {import("./table.js").Sorted | null} */
  #sorted = null;
  /** Whether notifications of several days are there. */
  #days = false;

  /** @param {import("./buffer.js").Buffer} buffer
   *  @param {{label: string, empty: string, open: (item: Notification) => void,
   *   changed: () => void}} options `changed` when the address should say something else */
  constructor(buffer, { label, empty, open, changed }) {
    this.#buffer = buffer;
    this.#changed = changed;
    this.#selection = new Selection(buffer, () => this.table.refresh());
    this.tools = new Tools({
      searched: () => this.#searched(),
      offered: () => this.#offered(),
      shown: () => this.#names,
      choose: (names) => this.#choose(names),
      save: (format) => this.#save(format),
      rewind: () => this.table.rewind(),
    });
    this.table = new Table(this.#selection, {
      label,
      empty,
      open,
      sort: (name) => this.#sort(name),
    });
    this.table.onscrolled = (away) => (this.tools.newest.hidden = !away);
  }

  /** Turn to the fields of an event type.
   *  @param {import("../form/fields.js").Field[]} fields */
  set fields(fields) {
    this.#fields = fields;
    this.#chosen = null;
    this.#sorted = null;
    this.tools.search.value = "";
    this.#arrange();
  }

  /** Say in an address what is searched and shown. @param {import("../address.js").Given} given */
  spell(given) {
    const sorted = this.#sorted && `${this.#sorted.down ? "-" : ""}${this.#sorted.name}`;
    given.setOwn("search", this.tools.search.value.trim() || null);
    given.setOwn("sort", sorted);
    given.setOwn("columns", this.#chosen && this.#chosen.map(encodeURIComponent).join(","));
  }

  /** Show what an address says. @param {import("../address.js").Given} given */
  write(given) {
    const sorted = given.own("sort");
    this.tools.search.value = given.own("search") ?? "";
    this.#sorted = sorted === null
      ? null
      : { name: sorted.replace(/^-/, ""), down: sorted.startsWith("-") };
    this.#chosen = namesOf(given.own("columns"));
    this.#arrange();
  }

  /** The buffer has got some and let go of others.
   *  @param {Notification[]} added @param {Notification[]} gone */
  follow(added, gone) {
    const rows = this.#selection.follow(added, gone);
    this.#date();
    this.table.refresh(rows);
  }

  /** The buffer is empty. */
  clear() {
    this.#selection.clear();
    this.table.rewind();
    this.table.refresh();
  }

  /** Say how many a search has found. */
  count() {
    this.tools.tell(this.#selection.size, this.#buffer.size);
  }

  get #names() {
    return this.#chosen ?? usualNames(this.#fields);
  }

  /** Columns that can be chosen: every field, and what payloads have. */
  #offered() {
    const fields = this.#fields.map((field) => field.name);
    return [...fields, "payload", ...payloadPaths(this.#selection.all())];
  }

  /** Put columns, search and order into effect. */
  #arrange() {
    const columns = columnsOf(this.#names, this.#days);
    const sorted = columns.find((column) => column.name === this.#sorted?.name);
    const order = sorted === undefined ? null : orderBy(sorted, this.#sorted?.down ?? false);
    this.#selection.choose(searchOf(this.tools.search.value), order);
    this.table.show(columns, sorted === undefined ? null : this.#sorted);
    this.table.refresh();
    this.count();
  }

  #searched() {
    this.table.rewind();
    this.#arrange();
    this.#changed();
  }

  /** @param {string[]} names */
  #choose(names) {
    this.#chosen = names;
    this.#arrange();
    this.#changed();
  }

  /** By a column, then the other way round, then as they came. @param {string} name */
  #sort(name) {
    const again = this.#sorted?.name === name;
    this.#sorted = !again
      ? { name, down: false }
      : this.#sorted?.down
      ? null
      : { name, down: true };
    this.table.rewind();
    this.#arrange();
    this.#changed();
  }

  /** @param {string} format */
  #save(format) {
    const { type, text } = FORMATS[format];
    const content = text(this.#selection.all(), this.table.columns);
    save(`notifications.${format.toLowerCase()}`, type, content);
  }

  /** Times have their day where there is more than one. */
  #date() {
    const [first, last] = [this.#buffer.newest(this.#buffer.size - 1), this.#buffer.newest(0)];
    const days = first !== undefined && first.time.slice(0, 10) !== last.time.slice(0, 10);
    if (days === this.#days) return;
    this.#days = days;
    this.#arrange();
  }
}

/** @param {string | null} text of an address, which anybody may have written */
function namesOf(text) {
  try {
    return text === null ? null : text.split(",").map(decodeURIComponent);
  } catch {
    return null;
  }
}
