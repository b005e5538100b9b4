// The page: its head, its four views, and what they share.

import { Account } from "./account.js";
import { addressOf, placeAt } from "./address.js";
import { Api } from "./api.js";
import { fill, h } from "./dom.js";
import { icon } from "./icons.js";
import { count } from "./moments.js";
import { Session } from "./session.js";
import { SignIn } from "./signin.js";
import { isDark, watchTheme } from "./theme.js";
import { LanesView } from "./views/lanes.js";
import { OverviewView } from "./views/overview.js";
import { PublishView } from "./views/publish.js";
import { ReplayView } from "./views/replay.js";

const VIEWS = {
  overview: OverviewView,
  live: LanesView,
  replay: ReplayView,
  publish: PublishView,
};
const LOOK_MS = 3000;
const SAID_MS = 6000;
const NOTED_MS = 250;
const TITLE = document.title;

/** @import { Failure } from "./api.js" */
/** @import { Overview } from "./views/overview.js" */
/** @typedef {keyof typeof VIEWS} ViewName */
/**
 * @typedef {{element: HTMLElement, themed?: () => void,
 *   choose?: (eventType: string, given: import("./address.js").Given, lane?: number) => void,
 *   lane?: number,
 *   place?: {eventType: string, given: import("./address.js").Given},
 *   offer?: (eventTypes: string[]) => void,
 *   show?: (seen: Overview | null, away: number | null) => void}} View
 */

/** What every view may use. */
export class App {
  /** @type {Map<ViewName, View>} */
  #views = new Map();
  /** @type {View | null} the one that is shown */
  #shown = null;
  #noted = 0;
  #unseen = 0;
  #said = 0;
  #names = "";
  /** When the server last said how it is doing, and whether it does not now. */
  #seen = 0;
  #away = false;

  constructor() {
    this.session = new Session();
    this.api = new Api(this.session);
    /** @type {Record<string, import("./form/fields.js").View>} the public schemas by event type */
    this.schemas = {};
    /** @type {Overview | null} the last answer of the overview endpoint */
    this.overview = null;
    this.main = /** @type {HTMLElement} */ (document.querySelector("main"));
    this.toast = h("p", { class: "toast", role: "status", hidden: true });
    this.box = new SignIn(this.api, this.session);
    this.pill = h("span", { class: "state", role: "status" });
    const turn = watchTheme(() => this.#themed());
    this.theme = h("button", { type: "button", class: "bare", on: { click: turn } });
    this.account = new Account(this);
    document.body.append(this.toast, this.box.dialog);
    this.#head();
    this.session.addEventListener("change", () => this.#look());
    addEventListener("hashchange", () => this.#route());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return;
      this.#unseen = 0;
      document.title = TITLE;
    });
  }

  /** Load what the views need, show the one of the address, and keep looking. */
  async start() {
    await this.#look();
    this.#route();
    document.documentElement.dataset.ready = "true";
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      if (!document.hidden) await this.#look();
    }
  }

  /** Ask for a credential.
   *  @param {Failure | null} [error] why @returns {Promise<boolean>} whether there is one now */
  signIn(error = null) {
    return this.box.ask(error);
  }

  /** Tell the reader something that passes. @param {string} text */
  say(text) {
    fill(this.toast, text);
    this.toast.hidden = false;
    clearTimeout(this.#said);
    this.#said = setTimeout(() => (this.toast.hidden = true), SAID_MS);
  }

  /** Notifications have come: the title counts those that nobody was there to see.
   *  @param {number} number */
  arrived(number) {
    if (!document.hidden) return;
    this.#unseen += number;
    document.title = `(${count(this.#unseen)}) ${TITLE}`;
  }

  /** When the server was last heard of, if it does not answer now. */
  get away() {
    return this.#away ? this.#seen : null;
  }

  /** The state of a view has changed: the address of the one that is shown says so.
   *  @param {View} view @param {{push?: boolean}} [how] whether the way back leads to how it was */
  note(view, { push = false } = {}) {
    if (view !== this.#shown) return;
    clearTimeout(this.#noted);
    // Browsers refuse to write an address at every move of a mouse.
    if (push) this.#spell({ push });
    else this.#noted = setTimeout(() => this.#spell({ push }), NOTED_MS);
  }

  /** @param {{push: boolean}} how */
  #spell({ push }) {
    const place = this.#shown?.place;
    if (place === undefined || place.eventType === "") return;
    const address = addressOf({ view: document.body.dataset.view ?? "", ...place });
    if (address === location.hash) return;
    const state = { lane: this.#shown?.lane };
    if (push) history.pushState(state, "", address);
    else history.replaceState(state, "", address);
  }

  async #look() {
    try {
      /** @type {Overview} */
      const overview = await this.api.get("api/v1/overview");
      this.overview = overview;
      this.#seen = Date.now();
      this.#away = false;
      this.#state(overview.ready ? ["good", "Ready"] : ["bad", "Not ready"]);
      await this.#follow(overview);
    } catch (caught) {
      const error = /** @type {Failure} */ (caught);
      this.#away = true;
      if (error.status === 401 && this.session.who !== null) this.#expired(error);
      else this.#state(["bad", error.status === 0 ? "Server away" : error.message]);
    }
    this.account.show();
    this.#views.get("overview")?.show?.(this.overview, this.away);
  }

  /** The server may have been given other schemas, or event types without one.
   *  @param {Overview} overview */
  async #follow(overview) {
    const names = overview.event_types.map((item) => item.event_type).join("\n");
    if (names === this.#names) return;
    const { schema } = await this.api.get("api/v1/schema");
    for (const { event_type: name, key_order: order } of overview.event_types) {
      if (Object.hasOwn(schema, name)) schema[name].order = order;
    }
    this.schemas = schema;
    this.#names = names;
    for (const view of this.#views.values()) this.#offer(view);
  }

  /** @param {Failure} error */
  #expired(error) {
    this.session.leave();
    this.signIn(error);
  }

  /** @param {[string, string]} state */
  #state([kind, text]) {
    this.pill.dataset.kind = kind;
    if (this.pill.textContent !== text) fill(this.pill, text);
  }

  #head() {
    document.querySelector("#corner")?.append(this.pill, this.account.element, this.theme);
    for (const link of links()) {
      link.prepend(icon(/** @type {ViewName} */ (link.dataset.view)));
    }
    this.#themed();
  }

  #themed() {
    const dark = isDark();
    fill(this.theme, icon(dark ? "sun" : "moon"));
    this.theme.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
    for (const view of this.#views.values()) view.themed?.();
  }

  #route() {
    if (location.hash === "#main" && this.#views.size > 0) return; // the link past the head
    const { view: name, eventType, given } = placeAt(location.hash);
    const chosen = Object.hasOwn(VIEWS, name) ? /** @type {ViewName} */ (name) : "overview";
    this.#shown = null; // while it is turned to the address, it does not write it
    const view = this.#view(chosen);
    for (const other of this.#views.values()) other.element.hidden = other !== view;
    for (const link of links()) {
      if (link.dataset.view === chosen) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.body.dataset.view = chosen;
    if (eventType !== undefined) view.choose?.(eventType, given, history.state?.lane);
    this.#shown = view;
    this.#spell({ push: false });
  }

  /** @param {ViewName} name @returns {View} */
  #view(name) {
    const known = this.#views.get(name);
    if (known !== undefined) return known;
    /** @type {View} */
    const view = new VIEWS[name](this);
    this.#views.set(name, view);
    this.main.append(view.element);
    view.themed?.(); // colours can only be read once it is part of the page
    this.#offer(view);
    view.show?.(this.overview, this.away);
    return view;
  }

  /** @param {View} view */
  #offer(view) {
    const others = this.overview?.event_types.filter((item) => !item.configured) ?? [];
    view.offer?.([...Object.keys(this.schemas), ...others.map((item) => item.event_type)]);
  }
}

/** The links to the views. @returns {NodeListOf<HTMLAnchorElement>} */
function links() {
  return document.querySelectorAll("nav a[data-view]");
}

new App().start();
