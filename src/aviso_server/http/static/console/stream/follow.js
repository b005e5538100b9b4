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
  /** Resolves after that time, or when the signal is aborted. */
  wait: (ms, signal) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    }),
};

/**
 * @typedef {import("../api.js").Failure} Failure
 *
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
  #cut = null;
  #rest = null;
  #attempt = 0;
  #known = false;
  #outage = false;
  #limited = false;
  #last = null;
  #since = null;
  #end = null;

  /**
   * @param {object} options
   * @param {(path: string, body: object, signal: AbortSignal) => Promise<Response>} options.post
   *   rejects with an ApiError for anything but 200
   * @param {"watch" | "replay"} options.kind
   * @param {object} options.request the request object to begin with
   * @param {(notifications: object[]) => void} options.received CloudEvents, ascending, each once
   * @param {(state: State) => void} options.changed
   * @param {(message: import("./texts.js").Message) => void} options.told
   * @param {{now: () => number, wait: (ms: number, signal: AbortSignal) => Promise<void>}}
   *   [options.clock]
   * @param {() => number} [options.random] from 0 to 1
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
    const connection = { heard: begun, opened: false, fresh: false, limited: false, reason: null };
    const cut = new AbortController();
    this.#cut = cut;
    this.#guard(connection, cut);
    let error = null;
    try {
      const response = await this.#post(`api/v1/${this.#kind}`, this.#body(), cut.signal);
      const heard = () => (connection.heard = this.#clock.now());
      for await (const frames of batches(response, heard)) {
        this.#take(frames, connection);
        if (connection.reason !== null) break;
      }
    } catch (caught) {
      error = caught;
    } finally {
      cut.abort();
    }
    return { ...connection, error, lasted: this.#clock.now() - begun };
  }

  /** Cut a connection off on which nothing is heard. */
  async #guard(connection, cut) {
    const left = () => connection.heard + SILENCE_MS - this.#clock.now();
    while (left() > 0 && !cut.signal.aborted) await this.#clock.wait(left(), cut.signal);
    connection.silent = !cut.signal.aborted;
    cut.abort();
  }

  /** What to ask for, so that it goes on after what was received. */
  #body() {
    const { from_id: id, from_date: date, ...rest } = this.#request;
    if (this.#last !== null) return { ...rest, from_id: String(this.#last + 1) };
    const live = id === undefined && date === undefined;
    return live && this.#since !== null ? { ...rest, from_date: this.#since } : this.#request;
  }

  #take(frames, connection) {
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

  /** Whether a sequence is new; it then is the last. */
  #moves(sequence) {
    if (this.#last !== null && sequence <= this.#last) return false;
    this.#last = sequence;
    return true;
  }

  /** A frame that is not a notification; those of other names are none of ours. */
  #heed(event, data, connection) {
    if (event === "connection-closing") this.#close(data, connection);
    else if (event === "error") this.#fail(data, connection);
    else if (data.type === "connection_established") this.#open(data, connection, "live");
    else if (data.type === "replay_started") this.#open(data, connection, "history");
    else if (data.type === "history_gap") this.#call("told", texts.gap(data));
    else if (data.type === "notification_replay_limit_reached") this.#limit(data, connection);
    else if (data.type === "replay_completed") this.#complete(data, connection);
  }

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

  #limit(data, connection) {
    connection.limited = true;
    connection.explained = true;
    this.#call("told", texts.limit(data, this.#kind === "watch"));
  }

  #complete(data, connection) {
    const live = this.#kind === "watch";
    connection.complete = true;
    connection.explained = !live;
    this.#call("told", texts.completed(data, live));
    if (!live) return;
    // All before this connection was looked through: the next need not do that again.
    if (this.#since !== null) this.#since = connection.since;
    this.#change("live");
  }

  #fail(data, connection) {
    const single = Number.isSafeInteger(data.sequence);
    // An unreadable notification counts as seen, or each connection would tell of it again.
    if (single && !this.#moves(data.sequence)) return;
    connection.explained ||= !single;
    this.#call("told", texts.failure(data));
  }

  #close(data, connection) {
    connection.reason = String(data.reason);
    if (connection.reason === "end_of_stream" && connection.explained) return;
    this.#call("told", texts.closing(data));
  }

  /** The final state, when there is nothing more to ask for or nobody to ask; else null. */
  #verdict(connection) {
    if (refused(connection.error)) return { phase: "failed", error: connection.error };
    if (this.#kind === "watch") return null;
    this.#limited = connection.limited;
    const reached = this.#end !== null && this.#last !== null && this.#last >= this.#end;
    const over = connection.complete || connection.limited || reached;
    return over ? { phase: "ended", more: connection.limited } : null;
  }

  /** Wait for as long as the end of a connection calls for. */
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

  /** Wait that long, or without an end; `retryNow` and `stop` cut it short. */
  async #pause(ms, phase, error) {
    const { signal } = (this.#rest = new AbortController());
    this.#change(phase, { error, retryAt: ms === null ? null : this.#clock.now() + ms });
    if (signal.aborted) return;
    if (ms !== null) await this.#clock.wait(ms, signal);
    else await new Promise((resolve) => signal.addEventListener("abort", resolve));
    this.#rest = null;
  }

  #change(phase, { error = null, retryAt = null, more = false } = {}) {
    const works = phase === "live" || phase === "history" || phase === "ended";
    this.#call("changed", { phase, attempt: works ? 0 : this.#attempt, retryAt, error, more });
  }

  /** A fault of the page must not look like one of the connection. */
  #call(hook, value) {
    if (this.#stopped) return;
    try {
      this.#hooks[hook](value);
    } catch (error) {
      reportError(error);
    }
  }
}

function isNotification(event, data) {
  const named = event === "live-notification" || event === "replay";
  return named && Number.isSafeInteger(data?.sequence);
}
