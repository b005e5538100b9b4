// The replay view: read history, see how far it is, and play it back.

import { fill, h } from "../dom.js";
import { Cursor } from "../form/cursor.js";
import { Query } from "../form/query.js";
import { icon } from "../icons.js";
import { count } from "../moments.js";
import { Results } from "../results/results.js";
import { Timeline } from "../results/timeline.js";
import { Follower } from "../stream/follow.js";
import { Notices } from "../stream/notices.js";
import { statusText } from "../stream/status.js";

/** Notifications that can be played back; what is read beyond it is let go of. */
const HELD = 50_000;

export class ReplayView {
  #app;
  #follower = null;
  #busy = false;
  #history = [];
  #times = [];
  #shown = 0;
  #target = null;

  constructor(app) {
    this.#app = app;
    this.go = h("button", { type: "submit", class: "primary" });
    this.next = h(
      "button",
      { type: "button", hidden: true, on: { click: () => this.#more() } },
      "Read on",
    );
    const changed = () => this.query?.update();
    const cursors = {
      start: new Cursor({ name: "from", kinds: ["first", "id", "date"], changed }),
      end: new Cursor({ name: "to", kinds: ["end", "id", "date"], changed }),
    };
    this.notices = new Notices();
    this.progress = h("progress", { max: 1, value: 0, "aria-label": "History read" });
    this.words = h("span", { class: "soft small" });
    this.meter = h("div", { class: "meter", hidden: true }, this.progress, this.words, this.next);
    this.timeline = new Timeline({ moved: (until) => this.#until(until) });
    this.results = new Results({
      label: "Replayed notifications",
      empty: "History appears here.",
      pausable: false,
    });
    this.query = new Query(app, {
      kind: "replay",
      cursors,
      go: this.go,
      draw: (kind) => this.results.map.draw(kind),
      area: (place) => this.results.map.setArea(place),
      picked: (fields) => this.#picked(fields),
    });
    this.results.map.ondrawn = (place) => this.query.filters.drawn(place);
    this.results.map.onmessage = (text) => this.#app.say(text);
    this.query.form.addEventListener("submit", () => this.#toggle());
    this.results.element.firstChild.after(this.meter, this.notices.element, this.timeline.element);
    this.element = h(
      "div",
      { class: "workspace" },
      h("h1", { class: "unseen" }, "Replay"),
      this.query.element,
      this.results.element,
    );
    this.#idle();
  }

  offer(eventTypes) {
    this.query.select.offer(eventTypes);
  }

  choose(eventType) {
    this.query.select.turn(eventType);
  }

  themed() {
    this.results.map.refreshTheme();
  }

  #picked(fields) {
    this.#stop();
    this.results.fields = fields;
    this.#empty();
  }

  #empty() {
    this.#history = [];
    this.#times = [];
    this.#shown = 0;
    this.#target = null;
    this.results.clear();
    this.notices.clear();
    this.timeline.times = [];
    this.meter.hidden = true;
    this.next.hidden = true;
  }

  #toggle() {
    if (this.#busy) {
      this.#stop();
      this.#settle();
      return;
    }
    const request = this.query.read();
    if (request === null) return;
    this.#follower?.stop();
    this.#empty();
    this.#follower = new Follower({
      post: (path, body, signal) => this.#app.api.stream(path, body, signal),
      kind: "replay",
      request,
      received: (notifications) => this.#received(notifications),
      changed: (state) => this.#changed(state),
      told: (message) => this.#told(message),
    });
    this.#running();
    this.#follower.start();
    this.results.appear();
  }

  #more() {
    this.next.hidden = true;
    this.timeline.times = [];
    this.results.show(this.#history);
    this.#running();
    this.#follower?.more();
  }

  #received(notifications) {
    const room = HELD - this.#history.length;
    for (const item of notifications.slice(0, Math.max(0, room))) {
      this.#history.push(item);
      this.#times.push(Date.parse(item.time));
    }
    this.results.add(notifications);
    this.#measure();
  }

  #told(message) {
    this.notices.add(message);
    if (message.kind === "opened") this.#aim(message.frame);
  }

  /** Which sequences are read, for the bar: what the server says, or what it last told. */
  #aim(frame) {
    const known = this.#app.overview?.event_types.find(
      (item) => item.event_type === this.query.eventType,
    );
    const end = frame.end_sequence ?? known?.last_sequence ?? null;
    const begin = Math.max(frame.from_sequence ?? 1, known?.first_sequence ?? 1);
    this.#target = end === null ? null : { begin, end };
    this.#measure();
  }

  #measure() {
    const number = this.results.count;
    const last = this.#follower?.last ?? null;
    this.meter.hidden = false;
    if (this.#target === null) {
      this.progress.removeAttribute("value");
    } else if (last !== null) {
      const { begin, end } = this.#target;
      this.progress.value = Math.min(1, (last - begin + 1) / Math.max(1, end - begin + 1));
    }
    const held = number > HELD ? `; the first ${count(HELD)} can be played back` : "";
    const place = last === null ? "" : `, up to sequence ${count(last)}`;
    fill(this.words, `${count(number)} notifications${place}${held}`);
  }

  #changed(state) {
    const [kind, text] = statusText(state);
    this.results.tell(kind, text);
    if (state.phase === "unauthorized") this.#signIn(state.error);
    if (state.phase === "ended") this.#ended(state.more);
    if (state.phase === "failed") {
      this.query.complain(state.error);
      this.#stop();
      this.results.tell(kind, text);
    }
  }

  #ended(more) {
    this.#measure();
    this.next.hidden = !more;
    this.meter.hidden = !more; // the counters say the rest
    this.#rest();
    this.#settle();
  }

  /** All is read: now it can be played back. */
  #settle() {
    this.timeline.times = this.#times;
    this.#shown = this.#history.length;
  }

  /** Show history up to a moment. */
  #until(moment) {
    const number = after(this.#times, moment);
    if (number >= this.#shown) this.results.add(this.#history.slice(this.#shown, number));
    else this.results.show(this.#history.slice(0, number));
    this.#shown = number;
  }

  async #signIn(error) {
    const follower = this.#follower;
    if (await this.#app.signIn(error)) follower.retryNow();
    else if (follower === this.#follower) this.#stop();
  }

  #running() {
    this.#busy = true;
    fill(this.go, icon("stop"), "Stop");
  }

  #rest() {
    this.#busy = false;
    fill(this.go, icon("replay"), "Replay");
  }

  #stop() {
    this.#follower?.stop();
    this.#follower = null;
    this.#idle();
  }

  #idle() {
    this.#rest();
    this.results.tell("idle", "Not reading");
  }
}

/** How many of the ascending times are not after a moment. */
function after(times, moment) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}
