// The overview: every event type at a glance, and how the server is doing.
//
// It is shown anew with every look at the server. What changes keeps its place on the page, so a
// reader's eye, a screen reader and a focused link are left alone.

import { addressOf, Given } from "../address.js";
import { fill, h, svg } from "../dom.js";
import { icon } from "../icons.js";
import { bytes, count, rate, since, span, toCalendar } from "../moments.js";

/** @import { App } from "../main.js" */
/** @typedef {{tier: string, first: number | null, last: number | null, lag?: number}} Tier */
/** @typedef {Tier & {first: number, last: number}} Full */
/** @typedef {[name: string, value: string, words: string, good: boolean]} Tile */
/** @typedef {[time: number, sequence: number][]} Past */
/**
 * An event type; how much there is of it only for those who may read it.
 * @typedef {{event_type: string, configured: boolean, readable: boolean, writable: boolean,
 *   key_order?: string[], error?: string,
 *   stored: number, first_sequence: number, last_sequence: number,
 *   last_time?: string, rates: {per_second_1m: number | null}, tiers: Tier[],
 *   retention?: Record<string, number | null> | null}} Item
 */
/**
 * The answer of `GET api/v1/overview`.
 * @typedef {{ready: boolean, version: string, auth_enabled: boolean, metrics_port: number | null,
 *   backend: {kind: string, connected: boolean}, lake: unknown, event_types: Item[],
 *   archive?: {state: string, lag: number | null, error?: string | null} | null,
 *   omitted: number}} Overview
 */

const TIERS = ["memory", "log", "lake"];
/** Looks that the little curves reach back. */
const REMEMBERED = 60;

export class OverviewView {
  #app;
  /** @type {Map<string, Card>} */
  #cards = new Map();
  /** @type {Map<string, Past>} */
  #past = new Map();

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    this.tiles = h("dl", { class: "tiles" });
    this.cards = h("ul", { class: "cards" });
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.links = h("nav", { class: "tools", "aria-label": "Tools" });
    this.element = h(
      "div",
      { class: "overview" },
      h(
        "header",
        {},
        h("h1", {}, "What is announced here"),
        h(
          "p",
          { class: "soft" },
          "Producers announce that data exists. Follow the announcements live, read their history, "
            + "or publish one.",
        ),
      ),
      this.trouble,
      this.tiles,
      this.cards,
      this.links,
    );
  }

  /** @param {Overview | null} seen @param {number | null} [away] when it was seen, if it is of the
   *  past: the server does not answer now */
  show(seen, away = null) {
    this.trouble.hidden = seen !== null && away === null;
    this.element.classList.toggle("stale", seen !== null && away !== null);
    if (seen === null) {
      fill(this.trouble, "The server does not tell how it is doing.");
      return;
    }
    if (away !== null) {
      const then = toCalendar(new Date(away)).slice(11);
      fill(this.trouble, `The server does not answer. All below is as of ${then} UTC.`);
      this.tiles.firstElementChild?.replaceWith(tile(["server", "away", "no answer", false]));
      return;
    }
    this.#server(seen);
    const names = new Set(seen.event_types.map((item) => item.event_type));
    for (const [name, card] of this.#cards) {
      if (!names.has(name)) {
        card.element.remove();
        this.#cards.delete(name);
        this.#past.delete(name);
      }
    }
    for (const item of seen.event_types) this.#card(item).show(item, this.#remember(item));
    if (seen.omitted > 0) {
      this.trouble.hidden = false;
      fill(this.trouble, `${count(seen.omitted)} more event types are not shown.`);
    }
  }

  /** @param {Overview} seen */
  #server(seen) {
    /** @type {Tile[]} */
    const tiles = [
      ["server", seen.ready ? "ready" : "not ready", `version ${seen.version}`, seen.ready],
      [
        "backend",
        seen.backend.kind,
        seen.backend.connected ? "connected" : "away",
        seen.backend.connected,
      ],
      archiveTile(seen),
      ["notifications", count(sum(seen, (item) => item.stored)), "kept in all tiers", true],
      ["rate", rate(sum(seen, (item) => item.rates?.per_second_1m)), "over the last minute", true],
    ];
    fill(this.tiles, tiles.map(tile));
    this.#tools(seen);
  }

  /** @param {Overview} seen */
  #tools(seen) {
    const links = [
      ["swagger-ui/", "Swagger UI", "try every endpoint in the browser"],
      ["api/v1/schema", "Schemas", "what can be announced and filtered here"],
      ["api-docs/openapi.json", "OpenAPI", "for code generators and tests"],
    ];
    if (seen.metrics_port) {
      const place = new URL(document.baseURI);
      links.push([
        `http://${place.hostname}:${seen.metrics_port}/metrics`,
        "Metrics",
        "numbers for Prometheus",
      ]);
    }
    /** @type {HTMLAnchorElement | null} */
    const docs = document.querySelector("footer a[href^='http']");
    if (docs) links.push([docs.href, "Documentation", "running and using the service"]);
    if (this.links.children.length === links.length) return;
    fill(
      this.links,
      links.map(([href, title, words]) =>
        h("a", { href }, h("strong", {}, title), h("span", {}, words))
      ),
    );
  }

  /** @param {Item} item */
  #card(item) {
    const name = item.event_type;
    const known = this.#cards.get(name);
    if (known !== undefined) return known;
    const card = new Card(this.#app, name);
    this.#cards.set(name, card);
    this.cards.append(card.element);
    return card;
  }

  /** The last sequences seen of an event type, for its curve. @param {Item} item */
  #remember(item) {
    const past = this.#past.get(item.event_type) ?? [];
    if (item.last_sequence !== undefined) past.push([Date.now(), item.last_sequence]);
    if (past.length > REMEMBERED) past.shift();
    this.#past.set(item.event_type, past);
    return past;
  }
}

/** @param {Tile} tile */
function tile([name, value, words, good]) {
  return h(
    "div",
    { class: good ? "" : "poor" },
    h("dt", {}, name),
    h("dd", {}, value),
    h("dd", { class: "words" }, words),
  );
}

/** One event type. */
class Card {
  /** @param {App} app @param {string} name */
  constructor(app, name) {
    this.rate = h("p", { class: "rate" });
    this.curve = h("div", { class: "curve" });
    this.facts = h("dl", { class: "facts" });
    this.bar = h("div", { class: "tiers" });
    this.note = h("p", { class: "soft small" });
    /** @param {"live" | "replay" | "publish"} view @param {string} label */
    const link = (view, label, given = new Given()) => {
      const href = addressOf({ view, eventType: name, given });
      return h("a", { href, class: "button" }, icon(view), label);
    };
    this.watch = link("live", "Watch", new Given(".run"));
    this.replay = link("replay", "Replay");
    this.publish = link("publish", "Publish");
    this.element = h(
      "li",
      { class: "card", dataset: { event: name } },
      h("header", {}, h("h2", {}, name), this.rate),
      this.curve,
      this.bar,
      this.facts,
      this.note,
      h("div", { class: "buttons" }, this.watch, this.replay, this.publish),
    );
    this.app = app;
  }

  /** @param {Item} item @param {Past} past */
  show(item, past) {
    const known = item.stored !== undefined;
    for (const part of [this.curve, this.bar, this.facts, this.rate]) part.hidden = !known;
    this.watch.hidden = !item.readable;
    this.replay.hidden = !item.readable;
    this.publish.hidden = !item.writable;
    const closed = this.#closed(item, known);
    fill(this.note, closed);
    this.note.hidden = closed === "";
    if (!known) return;
    const speed = item.rates.per_second_1m;
    fill(this.rate, speed === null ? "" : rate(speed));
    this.rate.classList.toggle("still", speed === 0);
    fill(this.curve, curve(past));
    fill(this.bar, tiers(item));
    fill(this.facts, facts(item).map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
  }

  /** Why something is not shown. @param {Item} item @param {boolean} known */
  #closed(item, known) {
    if (item.error) return item.error;
    if (known) return "";
    if (item.readable) return "Not counted for you.";
    const { session } = this.app;
    return session.who === null
      ? "Sign in to read this event type."
      : "Your role does not read it.";
  }
}

/** @param {Item} item */
function facts(item) {
  const last = item.last_time ? since(item.last_time) : "never";
  const range = item.stored > 0 ? `${item.first_sequence} to ${item.last_sequence}` : "none";
  return [
    ["stored", count(item.stored)],
    ["sequences", range],
    ["last", last],
    ["kept", kept(item.retention)],
  ];
}

/** @param {Record<string, number | null> | null | undefined} retention */
function kept(retention) {
  if (!retention) return "forever";
  const limits = [
    retention.seconds && span(retention.seconds),
    retention.max_messages && `${count(retention.max_messages)} newest`,
    retention.max_bytes && bytes(retention.max_bytes),
    retention.per_topic && `${count(retention.per_topic)} per topic`,
  ].filter(Boolean);
  return limits.join(", ") || "forever";
}

/** @param {Overview} seen @returns {Tile} */
function archiveTile(seen) {
  const { archive } = seen;
  if (!seen.lake) return ["archive", "none", "no lake is configured", true];
  if (archive === null || archive === undefined) {
    return ["archive", "elsewhere", "another process fills the lake", true];
  }
  const behind = archive.lag === null
    ? ""
    : archive.lag === 0
    ? "up to date"
    : `${count(archive.lag)} behind`;
  const words = archive.error ?? behind;
  return [
    "archive",
    archive.state,
    words || "starting",
    archive.state === "running" || archive.state === "starting",
  ];
}

/** @param {Overview} seen @param {(item: Item) => number | null | undefined} value */
function sum(seen, value) {
  return seen.event_types.reduce((total, item) => total + (value(item) ?? 0), 0);
}

/** Where the sequences of an event type are, drawn to scale over all that exist.
 *  @param {Item} item */
function tiers(item) {
  const first = Math.min(...item.tiers.filter(holds).map((tier) => tier.first), item.last_sequence);
  const width = Math.max(1, item.last_sequence - first + 1);
  return item.tiers.filter(({ tier }) => TIERS.includes(tier)).map((tier) => {
    const name = tier.tier;
    const fillBar = h("span", { class: `fill ${name}` });
    if (holds(tier)) {
      fillBar.style.left = `${((tier.first - first) / width) * 100}%`;
      fillBar.style.width = `max(3px, ${((tier.last - tier.first + 1) / width) * 100}%)`;
    }
    const words = holds(tier) ? `${tier.first} to ${tier.last}` : "empty";
    const lag = tier.lag && tier.lag > 0 ? `, ${count(tier.lag)} behind` : "";
    return h(
      "div",
      { class: "tier", title: `${name}: ${words}${lag}` },
      h("span", { class: "name" }, name),
      h("span", { class: "track" }, holds(tier) && fillBar),
      h(
        "span",
        { class: "words" },
        lag ? lag.slice(2) : holds(tier) ? count(tier.last - tier.first + 1) : "–",
      ),
    );
  });
}

/** @param {Tier} tier @returns {tier is Full} */
function holds(tier) {
  return tier.first !== null && tier.last !== null && tier.last >= tier.first && tier.first > 0;
}

/** Publications between looks as a little curve. @param {Past} past */
function curve(past) {
  const steps = past.slice(1).map(([, last], place) => Math.max(0, last - past[place][1]));
  const highest = Math.max(1, ...steps);
  /** @param {number} place */
  const x = (place) =>
    (place / (REMEMBERED - 2)) * 200 + 200 * (1 - (steps.length - 1) / (REMEMBERED - 2));
  const points = steps.map((step, place) =>
    `${x(place).toFixed(1)},${(27 - (step / highest) * 24).toFixed(1)}`
  );
  const box = svg("svg", {
    viewBox: "0 0 200 28",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  if (points.length < 2) {
    box.append(svg("polyline", { points: "0,27 200,27", class: "over still" }));
  } else {
    const begin = `${x(0).toFixed(1)},28`;
    box.append(
      svg("polygon", { points: `${begin} ${points.join(" ")} 200,28`, class: "under" }),
      svg("polyline", { points: points.join(" "), class: "over" }),
    );
  }
  return box;
}
