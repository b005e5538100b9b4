// One stream, followed whatever happens to its connection.
//
// Rules
// - Every notification is handed on once, in the order of its sequence. After a break the next
//   request asks for last + 1; what was seen already is dropped.
// - A live-only watch that has seen nothing goes on from the time it was opened at (in whole
//   seconds, as the server tells it), so that nothing published during the break is missed. Any
//   other start that has delivered nothing is asked for as it was.
// - After `stop()` no callback is called.
// - Nothing is kept but a few numbers. How long to stay away is decided in backoff.js, what people
//   are told in texts.js.

import { causeOf, pauseAfter, refused, SILENCE_MS, worked } from "./backoff.js";
import { batches } from "./sse.js";
import * as texts from "./texts.js";

const CLOCK = {
  now: () => Date.now(),
  /** Resolves after that time, or when the signal is aborted.
   *  @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
  wait: (ms, signal) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    }),
};

/** @import { Failure } from "../api.js" */
/** @import { Request } from "../request/request.js" */
/** @import { Connection } from "./backoff.js" */
/** @import { Notification } from "./sse.js" */

/**
 * What is known of a connection while it lasts.
 * @typedef {Omit<Connection, "lasted" | "error"> & {heard: number, explained?: boolean,
 *   complete?: boolean, since?: string}} Progress
 */

/**
 * @typedef {object} Hooks
 * @property {(notifications: Notification[]) => void} received ascending, each once
 * @property {(state: State) => void} changed
 * @property {(message: import("./texts.js").Message) => void} told
 */

/**
 * @typedef {object} State
 * @property {"connecting"|"history"|"live"|"waiting"|"unauthorized"|"ended"|"failed"} phase
 * @property {number} attempt tries since the stream last worked
 * @property {number | null} retryAt when the next try begins, milliseconds since the epoch
 * @property {Failure | null} error why the phase is waiting, unauthorized or failed
 * @property {boolean} more whether `more()` would go on; in phase ended only
 */

export class Follower {
  #post;
  #kind;
  #request;
  #hooks;
  #clock;
  #random;
  #stopped = false;
  #running = false;
  /** Ends the connection, and the pause between two. */
  /** @type {AbortController | null} */
  #cut = null;
  /** @type {AbortController | null} */
  #rest = null;
  #attempt = 0;
  #known = false;
  #outage = false;
  #limited = false;
  /** @type {number | null} */
  #last = null;
  /** @type {string | null} */
  #since = null;
  /** @type {number | null} */
  #end = null;

  /**
   * @param {Hooks & {kind: "watch" | "replay", request: Request, clock?: typeof CLOCK,
   *   post: (path: string, body: Request, signal: AbortSignal) => Promise<Response>,
   *   random?: () => number}} options `post` rejects with an ApiError for anything but 200; the
   *   request is the one to begin with; `random` gives 0 to 1
   */
  constructor({ post, kind, request, clock = CLOCK, random = Math.random, ...hooks }) {
    this.#post = post;
    this.#kind = kind;
    this.#request = request;
    this.#hooks = hooks;
    this.#clock = clock;
    this.#random = random;
  }

  /** The last sequence received, or told to be unreadable; null before the first. */
  get last() {
    return this.#last;
  }

  /** Begin. */
  start() {
    if (this.#running || this.#stopped) return;
    this.#running = true;
    this.#follow();
  }

  /** End for good. */
  stop() {
    this.#stopped = true;
    this.#cut?.abort();
    this.#rest?.abort();
  }

  /** Do not wait any longer, as after signing in or when the network is back. */
  retryNow() {
    this.#rest?.abort();
  }

  /** Go on with a replay that met the server's limit. */
  more() {
    if (this.#running || !this.#limited) return;
    this.#limited = false;
    this.start();
  }

  async #follow() {
    let final = null;
    while (final === null) {
      this.#change("connecting");
      if (this.#stopped) return;
      const connection = await this.#connect();
      if (this.#stopped) return;
      final = this.#verdict(connection);
      if (final === null) await this.#stayAway(connection);
    }
    // First, so that the page may call `more()` from within its callback.
    this.#running = false;
    this.#change(final.phase, final);
  }

  /** One connection, from the request to its end, however it ends. */
  async #connect() {
    const begun = this.#clock.now();
    /** @type {Progress} */
    const connection = {
      heard: begun,
      opened: false,
      fresh: false,
      limited: false,
      silent: false,
      reason: null,
    };
    const cut = new AbortController();
    this.#cut = cut;
    this.#guard(connection, cut);
    /** @type {Failure | null} */
    let error = null;
    try {
      const response = await this.#post(`api/v1/${this.#kind}`, this.#body(), cut.signal);
      const heard = () => (connection.heard = this.#clock.now());
      for await (const frames of batches(response, heard)) {
        this.#take(frames, connection);
        if (connection.reason !== null) break;
      }
    } catch (caught) {
      error = /** @type {Failure} */ (caught);
    } finally {
      cut.abort();
    }
    return { ...connection, error, lasted: this.#clock.now() - begun };
  }

  /** Cut a connection off on which nothing is heard.
   *  @param {Progress} connection @param {AbortController} cut */
  async #guard(connection, cut) {
    const left = () => connection.heard + SILENCE_MS - this.#clock.now();
    while (left() > 0 && !cut.signal.aborted) await this.#clock.wait(left(), cut.signal);
    connection.silent = !cut.signal.aborted;
    cut.abort();
  }

  /** What to ask for, so that it goes on after what was received. @returns {Request} */
  #body() {
    const { from_id: id, from_date: date, ...rest } = this.#request;
    if (this.#last !== null) return { ...rest, from_id: String(this.#last + 1) };
    const live = id === undefined && date === undefined;
    return live && this.#since !== null ? { ...rest, from_date: this.#since } : this.#request;
  }

  /** @param {import("./sse.js").Frame[]} frames @param {Progress} connection */
  #take(frames, connection) {
    /** @type {Notification[]} */
    let fresh = [];
    const hand = () => {
      if (fresh.length === 0) return;
      connection.fresh = true;
      this.#call("received", fresh);
      fresh = [];
    };
    for (const { event, data } of frames) {
      if (isNotification(event, data)) {
        if (this.#moves(data.sequence)) fresh.push(data);
      } else {
        hand();
        this.#heed(event, data ?? {}, connection);
      }
    }
    hand();
  }

  /** Whether a sequence is new; it then is the last. @param {number} sequence */
  #moves(sequence) {
    if (this.#last !== null && sequence <= this.#last) return false;
    this.#last = sequence;
    return true;
  }

  /** A frame that is not a notification; those of other names are none of ours.
   *  @param {string} event @param {any} data @param {Progress} connection */
  #heed(event, data, connection) {
    if (event === "connection-closing") this.#close(data, connection);
    else if (event === "error") this.#fail(data, connection);
    else if (data.type === "connection_established") this.#open(data, connection, "live");
    else if (data.type === "replay_started") this.#open(data, connection, "history");
    else if (data.type === "history_gap") this.#call("told", texts.gap(data));
    else if (data.type === "notification_replay_limit_reached") this.#limit(data, connection);
    else if (data.type === "replay_completed") this.#complete(data, connection);
  }

  /** @param {any} data @param {Progress} connection @param {"live" | "history"} phase */
  #open(data, connection, phase) {
    connection.opened = true;
    connection.since = data.timestamp;
    if (phase === "live") this.#since = data.timestamp;
    this.#end = data.end_sequence ?? this.#end;
    this.#outage = false;
    this.#call("told", this.#known ? texts.resumed(data, this.#last) : texts.opened(data));
    this.#known = true;
    this.#change(phase);
  }

  /** @param {any} data @param {Progress} connection */
  #limit(data, connection) {
    connection.limited = true;
    connection.explained = true;
    this.#call("told", texts.limit(data, this.#kind === "watch"));
  }

  /** @param {any} data @param {Progress} connection */
  #complete(data, connection) {
    const live = this.#kind === "watch";
    connection.complete = true;
    connection.explained = !live;
    this.#call("told", texts.completed(data, live));
    if (!live) return;
    // All before this connection was looked through: the next need not do that again.
    if (this.#since !== null) this.#since = connection.since ?? this.#since;
    this.#change("live");
  }

  /** @param {any} data @param {Progress} connection */
  #fail(data, connection) {
    const single = Number.isSafeInteger(data.sequence);
    // An unreadable notification counts as seen, or each connection would tell of it again.
    if (single && !this.#moves(data.sequence)) return;
    connection.explained ||= !single;
    this.#call("told", texts.failure(data));
  }

  /** @param {any} data @param {Progress} connection */
  #close(data, connection) {
    connection.reason = String(data.reason);
    if (connection.reason === "end_of_stream" && connection.explained) return;
    this.#call("told", texts.closing(data));
  }

  /** The final state, when there is nothing more to ask for or nobody to ask; else null.
   *  @param {Progress & Connection} connection
   *  @returns {Partial<State> & Pick<State, "phase"> | null} */
  #verdict(connection) {
    if (refused(connection.error)) return { phase: "failed", error: connection.error };
    if (this.#kind === "watch") return null;
    this.#limited = connection.limited;
    const reached = this.#end !== null && this.#last !== null && this.#last >= this.#end;
    const over = connection.complete || connection.limited || reached;
    return over ? { phase: "ended", more: connection.limited } : null;
  }

  /** Wait for as long as the end of a connection calls for. @param {Connection} connection */
  async #stayAway(connection) {
    const { error, reason } = connection;
    if (error?.status === 401) return this.#pause(null, "unauthorized", error);
    this.#attempt = worked(connection) ? 1 : this.#attempt + 1;
    const ms = pauseAfter(connection, this.#attempt, this.#random);
    if (reason !== null) return ms > 0 ? this.#pause(ms, "waiting", null) : undefined;
    const cause = causeOf(connection);
    // Once per outage, however many tries it takes.
    if (!this.#outage) this.#call("told", texts.lost(cause));
    this.#outage = true;
    return this.#pause(ms, "waiting", cause);
  }

  /** Wait that long, or without an end; `retryNow` and `stop` cut it short.
   *  @param {number | null} ms @param {State["phase"]} phase @param {Failure | null} error */
  async #pause(ms, phase, error) {
    this.#rest = new AbortController();
    const { signal } = this.#rest;
    this.#change(phase, { error, retryAt: ms === null ? null : this.#clock.now() + ms });
    if (signal.aborted) return;
    if (ms !== null) await this.#clock.wait(ms, signal);
    else await new Promise((resolve) => signal.addEventListener("abort", resolve));
    this.#rest = null;
  }

  /** @param {State["phase"]} phase @param {Partial<State>} [rest] */
  #change(phase, { error = null, retryAt = null, more = false } = {}) {
    const works = phase === "live" || phase === "history" || phase === "ended";
    this.#call("changed", { phase, attempt: works ? 0 : this.#attempt, retryAt, error, more });
  }

  /** A fault of the page must not look like one of the connection.
   *  @param {keyof Hooks} hook @param {any} value */
  #call(hook, value) {
    if (this.#stopped) return;
    try {
      this.#hooks[hook](value);
    } catch (error) {
      reportError(error);
    }
  }
}

/** @param {string} event @param {any} data */
function isNotification(event, data) {
  const named = event === "live-notification" || event === "replay";
  return named && Number.isSafeInteger(data?.sequence);
}
