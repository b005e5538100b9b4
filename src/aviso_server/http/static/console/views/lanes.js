// Several live streams at once. Each has its form, its map and its table, and goes on while one
// looks at another; a link to something else opens beside what runs, and never in its place.

import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { count } from "../moments.js";
import { LiveView } from "./live.js";

/** Each holds a connection, and a browser has six to a server: some stay free for all else. */
const MOST = 4;
const LOOK_MS = 500;

/** @import { Given } from "../address.js" */
/** @typedef {{element: HTMLElement, turn: HTMLElement, name: HTMLElement, number: HTMLElement,
 *   shut: HTMLElement}} Tab */

export class LanesView {
  #app;
  /** @type {LiveView[]} */
  #lanes = [];
  /** @type {LiveView[]} emptied, and used again before another is made */
  #closed = [];
  #made = 0;
  /** @type {string[]} */
  #offered = [];
  /** @type {LiveView} */
  #shown;
  /** @type {Map<LiveView, Tab>} */
  #tabs = new Map();

  /** @param {import("../main.js").App} app */
  constructor(app) {
    this.#app = app;
    this.more = bare(() => this.#open(), "+ Another stream");
    this.bar = h("nav", { class: "lanes", "aria-label": "Streams", hidden: true }, this.more);
    this.element = h("div", { class: "lanes-view" }, this.bar);
    this.#shown = this.#add();
    this.#show(this.#shown);
    setInterval(() => this.#draw(), LOOK_MS);
  }

  /** @param {string[]} eventTypes */
  offer(eventTypes) {
    this.#offered = eventTypes;
    for (const lane of [...this.#lanes, ...this.#closed]) lane.offer(eventTypes);
  }

  themed() {
    for (const lane of [...this.#lanes, ...this.#closed]) lane.themed();
  }

  get place() {
    return this.#shown.place;
  }

  /** Which of the streams is shown, as the browser's history remembers it. */
  get lane() {
    return this.#shown.number;
  }

  /** @param {string} eventType @param {Given} given
   *  @param {number} [number] the lane that had this address, if it is a step back or forth */
  choose(eventType, given, number) {
    const known = this.#lanes.find((lane) => lane.number === number);
    const lane = known ?? this.#laneFor(eventType, given);
    if (lane === null) {
      this.#app.say(`${MOST} streams are the most; close one of them first.`);
      return;
    }
    this.#show(lane);
    lane.choose(eventType, given);
  }

  /** The stream of an address if there is one, or room for it; null if there is none.
   *  @param {string} eventType @param {Given} given */
  #laneFor(eventType, given) {
    const same = [this.#shown, ...this.#lanes].find((lane) => lane.shows(eventType, given));
    if (same !== undefined) return same;
    if (this.#shown.free) return this.#shown;
    const free = this.#lanes.find((lane) => lane.free);
    if (free !== undefined) return free;
    return this.#lanes.length < MOST ? this.#add() : null;
  }

  #add() {
    const lane = this.#closed.pop() ?? this.#make();
    this.#made += 1;
    lane.number = this.#made;
    this.#lanes.push(lane);
    return lane;
  }

  #make() {
    const lane = new LiveView(this.#app);
    lane.noted = (how) => {
      if (lane === this.#shown) this.#app.note(this, how);
      this.#draw();
    };
    lane.element.hidden = true;
    this.element.append(lane.element);
    lane.themed();
    lane.offer(this.#offered);
    return lane;
  }

  /** @param {LiveView} lane */
  #show(lane) {
    this.#shown = lane;
    for (const other of this.#lanes) other.element.hidden = other !== lane;
    this.#draw();
  }

  /** @param {LiveView} lane */
  #turn(lane) {
    this.#show(lane);
    this.#app.note(this, { push: true });
  }

  /** @param {LiveView} lane */
  #close(lane) {
    lane.reset();
    lane.element.hidden = true;
    this.#closed.push(lane);
    this.#tabs.get(lane)?.element.remove();
    this.#tabs.delete(lane);
    this.#lanes = this.#lanes.filter((other) => other !== lane);
    this.#turn(this.#shown === lane ? this.#lanes[this.#lanes.length - 1] : this.#shown);
  }

  /** Say what runs, and how much of it came. */
  #draw() {
    const [only] = this.#lanes;
    this.bar.hidden = this.#lanes.length === 1 && only.follower === null;
    this.bar.classList.toggle("single", this.#lanes.length === 1);
    this.more.hidden = this.#lanes.length === MOST;
    for (const lane of this.#lanes) {
      const { element, turn, name, number, shut } = this.#tab(lane);
      const eventType = lane.query.eventType;
      const text = count(lane.results.count);
      element.dataset.running = String(lane.follower !== null);
      if (name.textContent !== eventType) {
        fill(name, eventType);
        shut.setAttribute("aria-label", `Close ${eventType}`);
      }
      if (number.textContent !== text) fill(number, text);
      if (lane === this.#shown) turn.setAttribute("aria-current", "true");
      else turn.removeAttribute("aria-current");
    }
  }

  #open() {
    this.#turn(this.#add());
    this.#shown.query.select.select.focus();
  }

  /** @param {LiveView} lane @returns {Tab} */
  #tab(lane) {
    const known = this.#tabs.get(lane);
    if (known !== undefined) return known;
    const name = h("span");
    const number = h("span", { class: "soft" });
    const turn = bare(() => this.#turn(lane), name, number);
    const shut = bare(() => this.#close(lane), icon("close"));
    const tab = { element: h("span", { class: "lane" }, turn, shut), turn, name, number, shut };
    this.#tabs.set(lane, tab);
    this.more.before(tab.element);
    return tab;
  }
}

/** @param {() => void} click @param {...any} children */
function bare(click, ...children) {
  return h("button", { type: "button", class: "bare", on: { click } }, ...children);
}
