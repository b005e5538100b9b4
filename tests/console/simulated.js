// A stream server in the page, with a clock of its own, that does to its connections what a script
// says. It follows the protocol: history up to the boundary, then live, a limit per request.
//
// `evaluate` gets this file as one function of a scenario: {kind, request, before, steps,
// settle, and what the server is like}.
// A step is [name, argument]; afterwards, with `settle`, all that is due arrives until the follower
// rests. The answer is a record of everything that crossed the follower's boundary.

(async (scenario) => {
  const { Follower } = await import("/static/console/stream/follow.js");

  let now = 1_000_000_000;
  const timers = new Set();
  const clock = {
    now: () => now,
    wait: (ms, signal) =>
      new Promise((resolve) => {
        const timer = { at: now + ms, resolve };
        timers.add(timer);
        signal.addEventListener("abort", () => (timers.delete(timer), resolve()));
      }),
  };

  const stored = [];
  const first = scenario.forget ?? 1;
  const answers = [];
  let connections = [];
  const made = [];
  const log = { received: [], batches: [], states: [], told: [], bodies: [], paths: [] };
  const seconds = (ms) => new Date(ms - (ms % 1000)).toISOString().replace(".000Z", "Z");
  const frame = (event, data) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
  const control = (type, rest = {}) =>
    frame("replay-control", { type, timestamp: seconds(now), topic: "ev", ...rest });
  const event = ({ sequence }) => ({ id: `ev@${sequence}`, sequence, data: { identifier: {} } });
  const boundary = () => stored.length;

  /** What is matched of a stream: every notification whose number the scenario does not hide. */
  const matches = ({ sequence }) => !scenario.hidden?.includes(sequence);

  class Connection {
    constructor(body, signal) {
      this.body = body;
      this.signal = signal;
      this.edge = boundary();
      /** Frames on their way; of the first, a part may have arrived. */
      this.frames = [];
      this.opened = false;
      this.live = scenario.kind === "watch";
      this.stream = new ReadableStream({ start: (controller) => (this.controller = controller) });
      signal.addEventListener("abort", () => this.drop(signal.reason));
      this.begin();
    }

    begin() {
      const { from_id: id, from_date: date, to_id: end } = this.body;
      if (id === undefined && date === undefined) {
        const opening = { type: "connection_established", timestamp: seconds(now) };
        this.frames.push(frame("live-notification", opening));
        return;
      }
      const from = id === undefined ? null : Number(id);
      const to = end === undefined ? null : Math.min(Number(end), this.edge);
      const started = { from_sequence: from, from_date: date ?? null, end_sequence: to };
      this.frames.push(control("replay_started", { ...started, request_id: "r-1" }));
      if (from !== null && from > 0 && from < first) {
        const lost = { requested_sequence: from, first_available_sequence: first };
        this.frames.push(control("history_gap", lost));
      }
      this.history(from, to);
    }

    history(from, to) {
      const wanted = stored.filter(
        (item) =>
          item.sequence >= first
          && item.sequence <= (to ?? this.edge)
          && (from === null ? item.time >= Date.parse(this.body.from_date) : item.sequence >= from)
          && matches(item),
      );
      const limit = scenario.limit ?? Infinity;
      for (const item of wanted.slice(0, limit)) this.frames.push(frame("replay", event(item)));
      if (wanted.length > limit) {
        this.frames.push(control("notification_replay_limit_reached", { max_allowed: limit }));
        this.finish("end_of_stream");
        return;
      }
      this.frames.push(control("replay_completed"));
      if (!this.live) this.finish("end_of_stream");
    }

    /** So many characters, or all, reach the page. */
    arrive(length = Infinity) {
      const text = this.frames.join("");
      const piece = text.slice(0, length);
      let left = length;
      while (this.frames.length > 0 && left >= this.frames[0].length) {
        left -= this.frames.shift().length;
        this.opened = true;
      }
      this.midway = this.frames.length > 0 && left > 0;
      if (this.midway) this.frames[0] = this.frames[0].slice(left);
      if (piece !== "") this.controller.enqueue(new TextEncoder().encode(piece));
      if (this.frames.length === 0 && this.finished) this.drop(null);
    }

    /** End in order: the frame on its way is finished, those behind it are not sent. */
    close(reason) {
      this.frames = this.frames.slice(0, this.midway || !this.opened ? 1 : 0);
      this.finish(reason);
    }

    finish(reason) {
      this.frames.push(frame("connection-closing", { reason, request_id: "r-1" }));
      this.live = false;
      this.finished = true;
    }

    /** End the body, with an error if there is one. */
    drop(error) {
      if (this.gone) return;
      this.gone = true;
      connections = connections.filter((other) => other !== this);
      if (error === null) this.controller.close();
      else this.controller.error(error);
    }
  }

  const post = async (path, body, signal) => {
    now += scenario.postMs ?? 1000;
    log.bodies.push(body);
    log.paths.push(path);
    const answer = answers.shift();
    if (answer === "hang") {
      const aborted = (reject) => () => reject(signal.reason);
      await new Promise((_, reject) => signal.addEventListener("abort", aborted(reject)));
    }
    if (answer !== undefined) throw Object.assign(new Error(answer.message ?? "no"), answer);
    const connection = new Connection(body, signal);
    connections.push(connection);
    made.push(connection);
    return new Response(connection.stream);
  };

  const follower = new Follower({
    post,
    kind: scenario.kind,
    request: scenario.request,
    received(items) {
      log.batches.push(items.map((item) => item.sequence));
      log.received.push(...items.map((item) => item.sequence));
      if (scenario.stopAt !== undefined && follower.last >= scenario.stopAt) follower.stop();
      if (scenario.faulty) throw new Error("a fault of the page");
    },
    changed(state) {
      const { phase, attempt, error, more } = state;
      const wait = state.retryAt === null ? null : state.retryAt - now;
      log.states.push({ phase, attempt, wait, error: error?.message ?? null, more });
      if (scenario.at?.[phase] !== undefined) follower[scenario.at[phase]]();
    },
    told({ kind, text }) {
      log.told.push({ kind, text });
    },
    clock,
    random: () => scenario.random ?? 1,
  });

  const turn = new MessageChannel();
  turn.port1.start();
  /** Let everything happen that can without time going on. */
  const rest = async () => {
    for (let round = 0; round < 3; round += 1) {
      await new Promise((resolve) => {
        turn.port1.addEventListener("message", resolve, { once: true });
        turn.port2.postMessage(null);
      });
    }
  };

  const advance = (ms) => {
    now += ms;
    for (const timer of [...timers].filter(({ at }) => at <= now)) {
      timers.delete(timer);
      timer.resolve();
    }
  };

  const steps = {
    publish(number = 1) {
      for (let count = 0; count < number; count += 1) {
        now += 1000;
        const item = { sequence: stored.length + 1, time: now };
        stored.push(item);
        for (const connection of connections) {
          if (connection.live && matches(item)) {
            connection.frames.push(frame("live-notification", event(item)));
          }
        }
      }
    },
    arrive: (length) => connections.at(-1)?.arrive(length ?? Infinity),
    send: ([name, data]) => connections.at(-1)?.frames.push(frame(name, data)),
    raw: (text) => connections.at(-1)?.frames.push(text),
    break: () => connections.at(-1)?.drop(new TypeError("network error")),
    end: () => connections.at(-1)?.drop(null),
    close: (reason) => connections.at(-1)?.close(reason),
    answer: (...given) => answers.push(...given),
    advance,
    tick: () => {
      const soon = Math.min(...[...timers].map(({ at }) => at));
      if (Number.isFinite(soon)) advance(Math.max(0, soon - now));
    },
    retryNow: () => follower.retryNow(),
    more: () => follower.more(),
    start: () => follower.start(),
    stop: () => follower.stop(),
  };

  if (scenario.before) steps.publish(scenario.before);
  follower.start();
  await rest();
  for (const [name, argument] of scenario.steps) {
    steps[name](argument);
    await rest();
  }
  for (let round = 0; scenario.settle && round < 400; round += 1) {
    const phase = log.states.at(-1).phase;
    if (phase === "ended" && log.states.at(-1).more) follower.more();
    else if (phase === "ended" || phase === "failed") break;
    else if (phase === "waiting") steps.tick();
    else if (phase === "unauthorized") follower.retryNow();
    else if (connections.at(-1)?.frames.length > 0) steps.arrive();
    else if (phase === "live") break;
    await rest();
  }
  const opened = made.filter((connection) => connection.opened);
  return {
    ...log,
    last: follower.last,
    edges: opened.map((connection) => connection.edge),
    stored: stored.filter(matches).map(({ sequence }) => sequence),
    waiting: connections.at(-1)?.frames.join("") ?? "",
    open: connections.length,
    timers: timers.size,
  };
});
