// The event type of a form. Whoever fills in the form, or follows a stream, is not disturbed when
// other event types come or go; only when the chosen one has changed is it picked anew.

import { fill, h, uid } from "../dom.js";

/** @import { View } from "./fields.js" */

export class EventTypeSelect {
  #picked;
  #schemas;
  #seen = "";

  /** @param {() => Record<string, View>} schemas the public schemas by event type, as known now
   *  @param {(view: View | undefined) => void} picked told with the schema, if it has one */
  constructor(schemas, picked) {
    this.#schemas = schemas;
    this.#picked = picked;
    const id = uid("event");
    this.select = h("select", { id, class: "event", on: { change: () => this.#pick() } });
    const label = h("label", { class: "label", htmlFor: id }, "event type");
    this.element = h("div", { class: "field" }, label, this.select);
  }

  /** The chosen event type; empty if there is none. */
  get value() {
    return this.select.value;
  }

  /** Offer these. @param {string[]} names */
  offer(names) {
    const before = this.value;
    fill(this.select, names.map((name) => h("option", { value: name }, name)));
    if (names.includes(before)) this.select.value = before;
    if (this.#seen !== this.#now()) this.#pick();
  }

  /** Turn to one of those offered. @param {string} name */
  turn(name) {
    const offered = [...this.select.options].some((option) => option.value === name);
    if (!offered || this.value === name) return;
    this.select.value = name;
    this.#pick();
  }

  #now() {
    return JSON.stringify([this.value, this.#schemas()[this.value]]);
  }

  #pick() {
    this.#seen = this.#now();
    this.#picked(this.#schemas()[this.value]);
  }
}
