// The publish view: a form from the schema; what the server refuses is told at the field.

import { addressOfOne, Given } from "../address.js";
import { fill, h } from "../dom.js";
import { EventTypeSelect } from "../form/eventtype.js";
import { fieldsOf, placeOf } from "../form/fields.js";
import { PublishForm } from "../form/publishform.js";
import { icon } from "../icons.js";
import { WorldMap } from "../map/map.js";
import { clock } from "../moments.js";
import { requestOf } from "../request/request.js";
import { Snippets } from "../request/snippets.js";

/** @import { Failure } from "../api.js" */
/** @import { View } from "../form/fields.js" */
/** @import { App } from "../main.js" */
/** @import { Request } from "../request/request.js" */

const KEPT = 20;
const SHAPE = "announcement";

export class PublishView {
  #app;
  /** @type {import("../form/fields.js").Field[]} */
  #fields = [];
  /** @type {string[]} */
  #names = [];

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    this.select = new EventTypeSelect(() => app.schemas, (view) => this.#pick(view));
    this.go = h("button", { type: "submit", class: "primary" }, icon("publish"), "Publish");
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.done = h("ol", { class: "done" });
    this.mapHost = h("div", { class: "map" });
    this.snippets = new Snippets(() => ({ base: app.api.base, scheme: app.session.scheme }));
    this.publishForm = new PublishForm({
      changed: () => this.#update(),
      draw: (kind) => this.map.draw(kind),
      show: (place) => this.#show(place),
    });
    this.form = h(
      "form",
      { class: "query", noValidate: true, "aria-label": "What to publish" },
      this.select.element,
      this.publishForm.element,
      h("div", { class: "go" }, this.trouble, this.go),
    );
    this.element = h(
      "div",
      { class: "workspace publish" },
      h("h1", { class: "unseen" }, "Publish"),
      h("div", { class: "panel" }, this.form),
      h(
        "section",
        { class: "results", "aria-label": "Preview and answers" },
        this.mapHost,
        h(
          "div",
          { class: "answers" },
          h("div", {}, h("h2", {}, "The same from elsewhere"), this.snippets.element),
          h("div", {}, h("h2", {}, "Published from here"), h("div", { role: "log" }, this.done)),
        ),
      ),
    );
    this.map = new WorldMap(this.mapHost, {
      label: "Map to draw the place on",
      world: new URL("../world.json", import.meta.url).href,
    });
    this.map.ondrawn = (place) => this.publishForm.drawn(place);
    this.map.onmessage = (text) => app.say(text);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#publish();
    });
    app.session.addEventListener("change", () => this.#update());
    this.#nothing();
  }

  /** @param {string[]} eventTypes */
  offer(eventTypes) {
    this.select.offer(eventTypes);
  }

  /** @param {string} eventType */
  choose(eventType) {
    this.select.turn(eventType);
  }

  themed() {
    this.map.refreshTheme();
  }

  /** @param {View | undefined} view */
  #pick(view) {
    const fields = view === undefined ? [] : fieldsOf(view);
    this.#fields = fields;
    this.#names = [...fields.map((field) => field.name), "payload"];
    const spatial = fields.some((field) => field.kind === "polygon" || field.kind === "cloud");
    this.element.classList.toggle("without-map", !spatial);
    this.publishForm.begin(fields, view?.payload?.required ?? false);
    this.trouble.hidden = true;
    this.#update();
    this.#app.note(this);
  }

  /** What the address says of this view. */
  get place() {
    return { eventType: this.select.value, given: new Given() };
  }

  /** Show a ring as an area that can be pulled, a cloud as points.
   *  @param {import("../form/form.js").Shown | null} place */
  #show(place) {
    this.map.clear();
    this.map.setArea(place && "polygon" in place ? place : null);
    if (place && "points" in place) this.map.add([{ id: SHAPE, points: place.points }]);
  }

  #update() {
    const read = this.publishForm.read();
    this.publishForm.relieve(read);
    this.snippets.show("notify", this.#request(read));
  }

  /** @param {import("../form/publishform.js").Read} read */
  #request({ identifier, payload }) {
    return requestOf({ kind: "notify", eventType: this.select.value, identifier, payload });
  }

  /** Send what was given. The server says what is wrong; its word stands before our hints. */
  async #publish() {
    this.trouble.hidden = true;
    const read = this.publishForm.read();
    for (const name of this.#names) this.publishForm.complain(name, read.unread[name] ?? "");
    if (Object.keys(read.unread).length > 0) return;
    this.go.disabled = true;
    // The key makes a second try after a lost answer harmless.
    const key = crypto.randomUUID();
    try {
      const request = this.#request(read);
      this.#told(await this.#send(request, key), request);
    } catch (error) {
      this.#complain(/** @type {Failure} */ (error), read.hints);
    } finally {
      this.go.disabled = false;
    }
  }

  /** @param {Request} request @param {string} key */
  async #send(request, key) {
    const headers = { "Idempotency-Key": key };
    for (;;) {
      try {
        return await this.#app.api.send("api/v1/notification", request, headers);
      } catch (caught) {
        const error = /** @type {Failure} */ (caught);
        if (error.status !== 401 || !(await this.#app.signIn(error))) throw error;
      }
    }
  }

  /** @param {Failure} error @param {Record<string, string>} hints */
  #complain(error, hints) {
    const name = placeOf(error.field ?? null, this.#names);
    if (error.status === 400) {
      for (const [hinted, text] of Object.entries(hints)) this.publishForm.complain(hinted, text);
    }
    if (this.publishForm.complain(name, error.message)) return;
    fill(this.trouble, error.message);
    this.trouble.hidden = false;
  }

  /** @param {{id: string, sequence: number, topic: string, processed_at: string}} answer
   *  @param {Request} request */
  #told(answer, { event_type: eventType, identifier }) {
    const href = addressOfOne({ ...answer, identifier }, eventType, this.#fields);
    this.done.querySelector(".soft")?.remove();
    this.done.prepend(
      h(
        "li",
        {},
        h("time", { class: "mono" }, clock(answer.processed_at)),
        h("a", { href }, h("strong", {}, answer.id)),
        h("span", { class: "soft mono" }, answer.topic),
      ),
    );
    while (this.done.children.length > KEPT) this.done.lastChild?.remove();
    this.#app.say(`Published as ${answer.id}`);
  }

  #nothing() {
    fill(this.done, h("li", { class: "soft" }, "Nothing yet."));
  }
}
