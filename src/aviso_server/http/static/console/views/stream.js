// What the live and the replay view share: a form to ask with, the stream that follows from it, and
// where its notifications appear. The stream goes on while another view is shown.

import { addressOfOne, Given } from "../address.js";
import { fill, h } from "../dom.js";
import { Cursor } from "../form/cursor.js";
import { Query } from "../form/query.js";
import { icon } from "../icons.js";
import { Results } from "../results/results.js";
import { Follower } from "../stream/follow.js";
import { Notices } from "../stream/notices.js";
import { statusText } from "../stream/status.js";

/**
 * @typedef {import("../form/fields.js").Field} Field
 * @typedef {import("../map/drawing.js").Drawn} Drawn
 * @typedef {import("../request/request.js").Request} Request
 * @typedef {import("../stream/follow.js").State} State
 * @typedef {import("../stream/sse.js").Notification} Notification
 */

/** Parts of an address that only say how something is looked at. */
const LOOKS = ["map", "open", "search", "sort", "columns"];

export class StreamView {
  /** @type {Follower | null} */
  follower = null;
  busy = false;
  #running = new Given();
  /** @type {string | null} where the reader moved the map */
  #map = null;
  notices = new Notices();
  go = h("button", { type: "submit", class: "primary" });

  /**
   * @param {import("../main.js").App} app
   * @param {object} options
   * @param {string} options.title
   * @param {"watch" | "replay"} options.kind
   * @param {import("../icons.js").Name} options.image of the button, which says `verb`
   * @param {string} options.verb
   * @param {string} options.idle what is said while nothing is followed
   * @param {ConstructorParameters<typeof Results>[0]} options.results
   * @param {import("../form/cursor.js").Kind[]} options.from kinds of starts to choose from
   * @param {import("../form/cursor.js").Kind[]} [options.to] and of ends
   */
  constructor(app, { title, kind, image, verb, idle, results, from, to }) {
    this.app = app;
    /** Told when the state has changed. @type {(how: {push?: boolean}) => void} */
    this.noted = (how) => app.note(this, how);
    this.kind = kind;
    this.resting = { image, verb, idle };
    const changed = () => this.query?.update();
    this.results = new Results(results);
    this.query = new Query(app, {
      kind,
      cursors: {
        start: new Cursor({ name: "from", kinds: from, changed }),
        ...(to && { end: new Cursor({ name: "to", kinds: to, changed }) }),
      },
      go: this.go,
      draw: (shape) => this.results.map.draw(shape),
      show: (place) => this.results.map.setArea(/** @type {Drawn | null} */ (place)),
      picked: (fields) => this.#picked(fields),
      changed: (request) => {
        this.differs(request);
        this.note();
      },
    });
    this.results.link = ({ id, sequence, data }) =>
      addressOfOne({ id, sequence, ...data }, this.query.eventType, this.query.fields);
    this.results.onchanged = () => this.note();
    this.results.map.onmoved = () => this.#looked();
    this.results.map.ondrawn = (place) => this.query.filters.drawn(place);
    this.results.map.onmessage = (text) => app.say(text);
    this.query.form.addEventListener("submit", () => this.toggle());
    this.results.strip.after(this.notices.element);
    this.element = h(
      "div",
      { class: "workspace" },
      h("h1", { class: "unseen" }, title),
      this.query.element,
      this.results.element,
    );
    this.#idle();
  }

  /** The event types changed, or the caller. @param {string[]} eventTypes */
  offer(eventTypes) {
    this.query.select.offer(eventTypes);
  }

  /** What the address says of this view. @returns {{eventType: string, given: Given}} */
  get place() {
    // What runs, not what is being typed meanwhile.
    const given = this.follower === null ? this.query.spell() : new Given(`${this.#running}`);
    given.setOwn("map", this.#map);
    this.results.spell(given);
    return { eventType: this.query.eventType, given };
  }

  /** Turn to what an address says. @param {string} eventType @param {Given} given */
  choose(eventType, given) {
    this.query.select.turn(eventType);
    if (given.empty || this.query.eventType !== eventType) return;
    // Who comes back to a stream finds it as it is.
    if (given.without("run").empty) {
      if (!this.busy) this.toggle();
    } else if (!this.shows(eventType, given)) {
      if (this.busy) this.stop();
      this.query.write(given);
      if (given.own("run") !== null) this.toggle();
    }
    this.#look(given.own("map"));
    this.results.write(given);
  }

  /** Whether it shows what an address asks for. @param {string} eventType @param {Given} given */
  shows(eventType, given) {
    if (this.query.eventType !== eventType) return false;
    if (given.without("run").empty) return this.follower !== null;
    return `${given.without(...LOOKS)}` === `${this.place.given.without(...LOOKS)}`;
  }

  /** Whether nothing would be lost if it showed something else. */
  get free() {
    return this.follower === null && this.results.count === 0;
  }

  /** The state of this view has changed. */
  note() {
    this.noted({});
  }

  #looked() {
    const spot = this.results.map.spot;
    if (spot === null) return;
    const { lat, lon, across } = spot;
    this.#map = [lat, lon, across].map((number) => Number(number.toPrecision(5))).join(",");
    this.note();
  }

  /** @param {string | null} text */
  #look(text) {
    const [lat, lon, across] = (text ?? "").split(",").map(Number);
    if (text === this.#map || !(across > 0) || !Number.isFinite(lat + lon)) return;
    this.#map = text;
    this.results.map.look({ lat, lon, across });
  }

  themed() {
    this.results.map.refreshTheme();
  }

  /** The button was pressed. */
  toggle() {}

  /** The form says something else. @param {Request} _request */
  differs(_request) {}

  /** @param {Notification[]} notifications */
  received(notifications) {
    this.results.add(notifications);
  }

  /** @param {import("../stream/texts.js").Message} message */
  told(message) {
    this.notices.add(message);
  }

  /** Nothing is shown any more. */
  empty() {
    this.results.clear();
    this.notices.clear();
  }

  /** Follow another stream in place of the one before. @param {Request} request */
  begin(request) {
    this.follower?.stop();
    this.empty();
    this.#running = this.query.spell();
    this.#running.setOwn("run", "");
    this.follower = new Follower({
      post: (path, body, signal) => this.app.api.stream(path, body, signal),
      kind: this.kind,
      request,
      received: (notifications) => this.received(notifications),
      changed: (state) => this.changed(state),
      told: (message) => this.told(message),
    });
    this.running();
    this.follower.start();
    this.results.appear();
    this.noted({ push: true });
  }

  /** @param {State} state */
  changed(state) {
    const [kind, text] = statusText(state);
    if (state.phase === "unauthorized") this.#signIn(state.error);
    if (state.phase === "failed") {
      this.query.complain(state.error);
      this.stop();
    }
    this.results.tell(kind, text);
  }

  stop() {
    this.follower?.stop();
    this.follower = null;
    this.#idle();
    this.note();
  }

  /** Show and ask for nothing, as at the beginning. */
  reset() {
    this.stop();
    this.empty();
    this.query.write(new Given());
    this.results.write(new Given());
    this.#map = null;
  }

  running() {
    this.busy = true;
    fill(this.go, icon("stop"), "Stop");
  }

  rest() {
    this.busy = false;
    fill(this.go, icon(this.resting.image), this.resting.verb);
  }

  #idle() {
    this.rest();
    this.results.tell("idle", this.resting.idle);
  }

  /** @param {Field[]} fields */
  #picked(fields) {
    this.stop();
    this.results.fields = fields;
    this.empty();
  }

  /** @param {import("../api.js").Failure | null} error */
  async #signIn(error) {
    const { follower } = this;
    if (await this.app.signIn(error)) follower?.retryNow();
    else if (follower === this.follower) this.stop();
  }
}
