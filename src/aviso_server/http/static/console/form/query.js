// What to ask for: an event type, a filter, a start, perhaps an end; and the request that follows
// from it, in three spellings.

import { Given } from "../address.js";
import { fill, h } from "../dom.js";
import { requestOf } from "../request/request.js";
import { Snippets } from "../request/snippets.js";
import { EventTypeSelect } from "./eventtype.js";
import { fieldsOf, placeOf } from "./fields.js";
import { FilterForm } from "./filterform.js";

/**
 * @typedef {import("./form.js").Field} Field
 * @typedef {import("./form.js").Hooks} Hooks
 * @typedef {import("../request/request.js").Request} Request
 * @typedef {{start: import("./cursor.js").Cursor, end?: import("./cursor.js").Cursor}} Cursors
 */

export class Query {
  #kind;
  #cursors;
  /** @type {Field[]} */
  #fields = [];

  /**
   * @param {import("../main.js").App} app
   * @param {{kind: "watch" | "replay", cursors: Cursors, go: HTMLElement,
   *   draw: Hooks["draw"], show: Hooks["show"],
   *   picked: (fields: Field[]) => void, changed: (request: Request) => void}} options
   */
  constructor(app, { kind, cursors, go, draw, show, picked, changed }) {
    this.#kind = kind;
    this.#cursors = cursors;
    this.picked = picked;
    this.changed = changed;
    this.select = new EventTypeSelect(() => app.schemas, (view) => this.#pick(view));
    this.filters = new FilterForm({ changed: () => this.update(), draw, show });
    this.snippets = new Snippets(() => ({ base: app.api.base, scheme: app.session.scheme }));
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.form = h(
      "form",
      { class: "query", noValidate: true, "aria-label": "What to ask for" },
      this.select.element,
      this.filters.element,
      Object.values(cursors).map((cursor) => cursor.element),
      // Above the button that caused it, which is always in view.
      h("div", { class: "go" }, this.trouble, go),
    );
    this.element = h("div", { class: "panel" }, this.form, this.snippets.element);
    this.form.addEventListener("submit", (event) => event.preventDefault());
    app.session.addEventListener("change", () => this.update());
  }

  get fields() {
    return this.#fields;
  }

  get eventType() {
    return this.select.value;
  }

  /** Fill in what an address says. @param {import("../address.js").Given} given */
  write(given) {
    this.filters.write(given);
    this.#cursors.start.text = given.own("from") ?? this.#cursors.start.first;
    if (this.#cursors.end) this.#cursors.end.text = given.own("to") ?? this.#cursors.end.first;
    this.update();
  }

  /** What is filled in, as an address says it. */
  spell() {
    const given = new Given();
    this.filters.spell(given);
    given.setOwn("from", this.#cursors.start.text);
    given.setOwn("to", this.#cursors.end?.text ?? null);
    return given;
  }

  /** The request as the form says it; null when something is wrong, which is shown at its place. */
  read() {
    const { request, wrong } = this.#read({ quiet: false });
    this.complain(null);
    if (wrong) this.#bringUp();
    return wrong ? null : request;
  }

  /** Show an error of the server where it belongs.
   *  @param {import("../api.js").Failure | null} error */
  complain(error) {
    this.trouble.hidden = error === null;
    if (error === null) return;
    const name = placeOf(error.field ?? null, this.#fields.map((field) => field.name));
    const { start, end } = this.#cursors;
    const begins = name === "from_id" || name === "from_date";
    const cursor = begins ? start : name === "to_id" || name === "to_date" ? end : undefined;
    if (cursor) cursor.complain(error.message);
    else if (!this.filters.complain(name, error.message)) {
      fill(this.trouble, error.message);
      return;
    }
    this.trouble.hidden = true;
    this.#bringUp();
  }

  /** Bring the first field that is wrong into view. */
  #bringUp() {
    this.form.querySelector(".problem:not([hidden])")?.scrollIntoView({ block: "nearest" });
  }

  /** Spell the request anew, as far as it goes. */
  update() {
    const { request } = this.#read({ quiet: true });
    this.snippets.show(this.#kind, request);
    this.changed(request);
  }

  /** @param {{quiet: boolean}} how */
  #read(how) {
    const filter = this.filters.read(how);
    const start = this.#cursors.start.read(how);
    const end = this.#cursors.end?.read(how) ?? { point: null, wrong: false };
    const request = requestOf({
      kind: this.#kind,
      eventType: this.eventType,
      identifier: filter.identifier,
      start: start.wrong ? null : start.point,
      end: end.wrong ? null : end.point,
    });
    return { request, wrong: filter.wrong || start.wrong || end.wrong };
  }

  /** @param {import("./fields.js").View | undefined} view */
  #pick(view) {
    this.#fields = view === undefined ? [] : fieldsOf(view);
    this.filters.begin(this.#fields);
    this.picked(this.#fields);
    this.update();
  }
}
