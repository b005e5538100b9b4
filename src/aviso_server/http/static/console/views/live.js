// The live view: choose, watch, see. The stream goes on while another view is shown.

import { fill, h } from "../dom.js";
import { Cursor } from "../form/cursor.js";
import { Query } from "../form/query.js";
import { icon } from "../icons.js";
import { Results } from "../results/results.js";
import { Follower } from "../stream/follow.js";
import { Notices } from "../stream/notices.js";
import { statusText } from "../stream/status.js";

export class LiveView {
  #app;
  #follower = null;
  #asked = "";

  constructor(app) {
    this.#app = app;
    this.go = h("button", { type: "submit", class: "primary" });
    const start = new Cursor({
      name: "from",
      kinds: ["now", "first", "id", "date"],
      changed: () => this.query?.update(),
    });
    this.notices = new Notices();
    this.results = new Results({
      label: "Live notifications",
      empty: "Notifications appear here as they are published.",
    });
    this.query = new Query(app, {
      kind: "watch",
      cursors: { start },
      go: this.go,
      draw: (kind) => this.results.map.draw(kind),
      area: (place) => this.results.map.setArea(place),
      picked: (fields) => this.#picked(fields),
      changed: (request) => this.#differs(request),
    });
    this.results.map.ondrawn = (place) => this.query.filters.drawn(place);
    this.results.map.onmessage = (text) => this.#app.say(text);
    this.query.form.addEventListener("submit", () => this.#toggle());
    this.element = h(
      "div",
      { class: "workspace" },
      h("h1", { class: "unseen" }, "Live"),
      this.query.element,
      this.results.element,
    );
    this.results.element.firstChild.after(this.notices.element);
    this.#idle();
  }

  /** The event types changed, or the caller. */
  offer(eventTypes) {
    this.query.select.offer(eventTypes);
  }

  /** Turn to an event type, as the overview asks. */
  choose(eventType) {
    this.query.select.turn(eventType);
  }

  themed() {
    this.results.map.refreshTheme();
  }

  #picked(fields) {
    this.#stop();
    this.results.fields = fields;
    this.results.clear();
    this.notices.clear();
  }

  /** While a stream runs, the button stops it, or, when the form asks for another, begins anew. */
  #differs(request) {
    if (this.#follower === null) return;
    const same = JSON.stringify(request) === this.#asked;
    fill(this.go, icon(same ? "stop" : "live"), same ? "Stop" : "Watch this instead");
  }

  #toggle() {
    const request = this.query.read();
    const same = request === null || JSON.stringify(request) === this.#asked;
    if (this.#follower !== null && same) {
      this.#stop();
      return;
    }
    if (request === null) return;
    this.#follower?.stop();
    this.#asked = JSON.stringify(request);
    this.results.clear();
    this.notices.clear();
    this.#follower = new Follower({
      post: (path, body, signal) => this.#app.api.stream(path, body, signal),
      kind: "watch",
      request,
      received: (notifications) => this.results.add(notifications),
      changed: (state) => this.#changed(state),
      told: (message) => this.notices.add(message),
    });
    fill(this.go, icon("stop"), "Stop");
    this.#follower.start();
    this.results.appear();
  }

  #changed(state) {
    const [kind, text] = statusText(state);
    this.results.tell(kind, text);
    if (state.phase === "unauthorized") this.#signIn(state.error);
    if (state.phase === "failed") {
      this.query.complain(state.error);
      this.#stop();
      this.results.tell(kind, text);
    }
  }

  async #signIn(error) {
    const follower = this.#follower;
    if (await this.#app.signIn(error)) follower.retryNow();
    else if (follower === this.#follower) this.#stop();
  }

  #stop() {
    this.#follower?.stop();
    this.#follower = null;
    this.#idle();
  }

  #idle() {
    fill(this.go, icon("live"), "Watch");
    this.results.tell("idle", "Not watching");
  }
}
