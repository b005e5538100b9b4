// Where notifications appear: counters, the map and the table, and the details of one.
//
// Rules
// - What arrives is put on the screen once per frame, however fast it comes.
// - Paused, the screen stands still; what arrives waits, as many as the table holds.
// - Table and map hold a fixed number, and say so when there was more.

import { fill, h } from "../dom.js";
import { geometryOf } from "../form/fields.js";
import { icon } from "../icons.js";
import { WorldMap } from "../map/map.js";
import { count } from "../moments.js";
import { Buffer } from "./buffer.js";
import { Details } from "./details.js";
import { Rate } from "./rate.js";
import { Rows } from "./rows.js";

/** @import { Notification } from "../stream/sse.js" */

export class Results {
  /** What is on the screen. */
  #buffer = new Buffer();
  /** What comes onto it with the next frame: until then the rows are those that one sees. */
  #arrived = new Buffer();
  /** What waits while it is paused. */
  #waiting = new Buffer();
  #rate = new Rate();
  #paused = false;
  #asked = false;
  /** @type {Set<string>} */
  #placed = new Set();
  /** @type {string | null} what is to be opened when it comes */
  #awaited = null;
  /** The address of a notification. @type {(item: Notification) => string} */
  link = () => "";
  /** Something that the address says has changed: what is open, searched or shown. */
  onchanged = () => {};

  /** @param {{label: string, empty: string, pausable?: boolean}} options */
  constructor({ label, empty, pausable = true }) {
    this.state = h("span", { class: "state", role: "status" });
    this.received = counter("received");
    this.speed = counter("per second");
    this.last = counter("last sequence");
    this.pause = button("pause", "Pause", () => this.#toggle());
    this.note = h("p", { class: "results-note", role: "status" });
    this.mapHost = h("div", { class: "map" });
    this.details = new Details({
      closed: () => this.#chose(null),
      locate: (id) => {
        if (isNarrow()) this.mapHost.scrollIntoView();
        this.map.fit([id]);
      },
      link: (item) => this.link(item),
    });
    this.rows = new Rows(this.#buffer, {
      label,
      empty,
      open: (item) => this.#open(item),
      changed: () => this.onchanged(),
    });
    this.strip = h(
      "div",
      { class: "strip" },
      this.state,
      h("dl", { class: "counters" }, this.received.element, this.speed.element, this.last.element),
      h(
        "div",
        { class: "buttons" },
        pausable && [this.pause, button("clear", "Clear", () => this.clear())],
      ),
    );
    this.element = h(
      "section",
      { class: "results", "aria-label": label },
      this.strip,
      this.mapHost,
      this.note,
      this.rows.tools.element,
      this.rows.table.element,
      this.details.element,
    );
    this.map = new WorldMap(this.mapHost, {
      label: `${label}: map of areas`,
      world: new URL("../world.json", import.meta.url).href,
    });
    this.map.onpick = (id) => this.#pick(id);
    setInterval(() => this.#count(), 500);
  }

  /** How many notifications came since the last clear. */
  get count() {
    return this.#buffer.total + this.#arrived.total + this.#waiting.total;
  }

  /** Turn to the fields of an event type.
   *  @param {import("../form/fields.js").Field[]} fields */
  set fields(fields) {
    const spatial = fields.some((field) => field.kind === "polygon" || field.kind === "cloud");
    this.element.classList.toggle("without-map", !spatial);
    this.rows.fields = fields;
  }

  /** Say in an address what is searched, shown and open.
   *  @param {import("../address.js").Given} given */
  spell(given) {
    this.rows.spell(given);
    given.setOwn("open", this.opened);
  }

  /** Show what an address says. @param {import("../address.js").Given} given */
  write(given) {
    this.rows.write(given);
    this.expect(given.own("open"));
  }

  /** @param {Notification[]} notifications ascending */
  add(notifications) {
    this.#rate.add(notifications.length, performance.now());
    if (this.#paused) {
      this.#waiting.add(notifications);
      return;
    }
    this.#take(notifications);
  }

  /** Put these in place of all others, as one who turns back the time does.
   *  @param {Notification[]} notifications */
  show(notifications) {
    this.#buffer.clear();
    this.#arrived.clear();
    this.#placed.clear();
    this.map.clear();
    this.rows.clear();
    this.#arrived.add(notifications);
    this.#flush();
  }

  /** The notification that is open, or is to be when it comes. */
  get opened() {
    return this.details.item?.id ?? this.#awaited;
  }

  /** Open a notification as soon as it is there; null closes the one that is.
   *  @param {string | null} id */
  expect(id) {
    if (id === this.opened) return;
    this.details.close();
    this.#awaited = id;
    this.#find();
  }

  /** Begin anew. */
  clear() {
    this.#buffer.clear();
    this.#arrived.clear();
    this.#waiting.clear();
    this.#placed.clear();
    this.#rate = new Rate();
    this.#awaited = null;
    this.map.clear();
    this.details.close();
    this.rows.clear();
    this.#count();
  }

  /** Come into view, where the form is above and not beside it. */
  appear() {
    if (isNarrow()) this.element.scrollIntoView();
  }

  /**
   * How the stream is doing.
   * @param {import("../stream/status.js").Kind} kind
   * @param {string} text
   */
  tell(kind, text) {
    this.state.dataset.kind = kind;
    fill(this.state, text);
  }

  /** @param {Notification[]} notifications */
  #take(notifications) {
    this.#arrived.add(notifications);
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.#flush();
    });
  }

  /** Put what has arrived onto the screen. */
  #flush() {
    const notifications = this.#arrived.all();
    this.#buffer.total += this.#arrived.total - notifications.length;
    this.#arrived.clear();
    const shapes = [];
    for (const item of notifications) {
      const geometry = geometryOf(item);
      if (geometry === null) continue;
      this.#placed.add(item.id);
      shapes.push({ id: item.id, ...geometry });
    }
    const gone = this.#buffer.add(notifications);
    const unplaced = gone.filter((item) => this.#placed.delete(item.id));
    if (shapes.length > 0) this.map.add(shapes);
    if (unplaced.length > 0) this.map.remove(unplaced.map((item) => item.id));
    this.rows.follow(notifications, gone);
    this.#count();
    this.#find();
  }

  #find() {
    if (this.#awaited !== null) this.#pick(this.#awaited);
  }

  #toggle() {
    this.#paused = !this.#paused;
    fill(this.pause, icon(this.#paused ? "play" : "pause"), this.#paused ? "Resume" : "Pause");
    this.pause.setAttribute("aria-pressed", String(this.#paused));
    if (this.#paused) return;
    const waited = this.#waiting.all();
    const missed = this.#waiting.total - waited.length;
    this.#waiting.clear();
    this.#buffer.total += missed;
    this.#take(waited);
  }

  /** @param {Notification} item */
  #open(item) {
    this.details.open(item, this.#placed.has(item.id));
    this.#awaited = null;
    this.#chose(item.id);
  }

  /** @param {string} id */
  #pick(id) {
    const found = this.#buffer.all().find((item) => item.id === id);
    if (found !== undefined) this.#open(found);
  }

  /** @param {string | null} id */
  #chose(id) {
    this.rows.table.choose(id);
    this.map.highlight(id);
    this.onchanged();
    if (id === null) this.rows.table.element.focus({ preventScroll: true });
  }

  #count() {
    const waiting = this.#waiting.total;
    this.received.set(count(this.#buffer.total + waiting));
    this.speed.set(this.#rate.text(performance.now()));
    const last = (waiting > 0 ? this.#waiting : this.#buffer).newest(0);
    this.last.set(last === undefined ? "–" : String(last.sequence));
    fill(this.note, this.#words(waiting));
    this.rows.count();
  }

  /** @param {number} waiting */
  #words(waiting) {
    const said = [];
    if (this.#paused) said.push(`Paused; ${count(waiting)} waiting.`);
    if (this.#buffer.capped) said.push(`The table keeps the newest ${count(this.#buffer.limit)}.`);
    if (this.map.total > this.map.shown) {
      said.push(`The map shows the newest ${count(this.map.shown)} of ${count(this.map.total)}.`);
    }
    return said.join(" ");
  }
}

/** Whether the form is above, and not beside, what it asks for. */
function isNarrow() {
  return matchMedia("(width < 60rem)").matches;
}

/** @param {string} label */
function counter(label) {
  const value = h("dd", {}, "–");
  return {
    element: h("div", {}, h("dt", {}, label), value),
    /** @param {string} text */
    set(text) {
      if (value.textContent !== text) value.textContent = text;
    },
  };
}

/** @param {import("../icons.js").Name} image @param {string} label @param {() => void} click */
function button(image, label, click) {
  return h("button", { type: "button", on: { click } }, icon(image), label);
}
