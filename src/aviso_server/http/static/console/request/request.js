// A request in other spellings: as JSON to read, as a curl command, as Python for pyaviso.
//
// - The texts are for copying into a shell or a file, and parts of them come from producers and
//   configurations: whatever these hold, it stays data. Characters that cannot be seen or that turn
//   the direction of writing are escaped, so that what is shown is what is run.
// - A secret is never part of them; commands take it from the environment.

const PATHS = { notify: "api/v1/notification", watch: "api/v1/watch", replay: "api/v1/replay" };
// Everything here is legal inside a string of JSON and of Python in the form \uXXXX.
const HIDDEN = /[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
// Line feeds inside of strings are escaped, so this only meets the layout of indented JSON.
const PAIR = /\[\n\s+(-?[\d.e+-]+),\n\s+(-?[\d.e+-]+)\n\s+\]/g;
const LAST_SEQUENCE = 2n ** 64n - 1n;

/** @typedef {null | {id?: string, date?: string}} Cursor a start or an end; one of the two */

/**
 * @typedef {object} Request
 * @property {string} event_type
 * @property {Record<string, any>} identifier
 * @property {any} [payload] of a notification
 * @property {string} [from_id] of a watch or a replay, like those below
 * @property {string} [from_date]
 * @property {string} [to_id]
 * @property {string} [to_date]
 */

/**
 * The request object.
 * @param {{kind: "notify" | "watch" | "replay", eventType: string, identifier: object,
 *   start?: Cursor, end?: Cursor, payload?: any}} asked `payload` undefined is none
 * @returns {Request}
 */
export function requestOf({ kind, eventType, identifier, start, end, payload }) {
  const request = { event_type: eventType, identifier };
  if (kind === "notify") return payload === undefined ? request : { ...request, payload };
  const starts = { from_id: start?.id, from_date: start?.date };
  const ends = kind === "replay" ? { to_id: end?.id, to_date: end?.date } : {};
  const given = Object.entries({ ...starts, ...ends }).filter(([, text]) => text !== undefined);
  return { ...request, ...Object.fromEntries(given) };
}

/**
 * What is wrong with the text of a sequence; empty if the server takes it.
 * @param {string} text
 */
export function sequenceProblem(text) {
  const digits = /^\+?(\d+)$/.exec(text)?.[1];
  if (digits === undefined) return "A sequence is a whole number, such as 120.";
  return BigInt(digits) > LAST_SEQUENCE ? "This sequence is too large." : "";
}

/** JSON to read: indented, with each pair of coordinates on one line. @param {object} request */
export function pretty(request) {
  return visible(JSON.stringify(request, null, 2)).replace(PAIR, "[$1, $2]");
}

/**
 * A command for a POSIX shell.
 * @param {{base: string, kind: "notify" | "watch" | "replay", request: Request,
 *   auth?: "bearer" | "basic" | null}} asked `base` without a slash at its end
 */
export function curlLine({ base, kind, request, auth = null }) {
  const credentials = {
    bearer: ['-H "Authorization: Bearer $AVISO_TOKEN"'],
    basic: ['-u "$AVISO_USERNAME"'],
  };
  return [
    `curl ${kind === "notify" ? "" : "-N "}-X POST ${quoted(`${base}/${PATHS[kind]}`)}`,
    ...(auth ? credentials[auth] : []),
    "-H 'Content-Type: application/json'",
    `--data-raw ${quoted(visible(JSON.stringify(request)))}`,
  ].join(" \\\n  ");
}

/** A text as one word of a POSIX shell. @param {string} text */
export function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * A Python program for pyaviso 2.4.
 * @param {{base: string, kind: "notify" | "watch" | "replay", request: Request,
 *   auth?: "bearer" | "basic" | null}} asked `base` without a slash at its end
 */
export function pyavisoLines({ base, kind, request, auth = null }) {
  const credentials = {
    bearer: 'pyaviso.Bearer(os.environ["AVISO_TOKEN"])',
    basic: 'pyaviso.Basic(os.environ["AVISO_USERNAME"], os.environ["AVISO_PASSWORD"])',
  };
  const who = auth ? credentials[auth] : "pyaviso.Anonymous()";
  return [
    ...(auth ? ["import os", ""] : []),
    "import pyaviso",
    "",
    `client = pyaviso.AvisoClient(base_url=${python(base)}, auth=${who})`,
    ...(kind === "notify" ? notifyLines(request) : listenLines(kind, request)),
    "",
  ].join("\n");
}

/** @param {Request} request */
function notifyLines({ event_type: eventType, identifier, payload }) {
  return [
    "answer = client.notify(",
    `    event_type=${python(eventType)},`,
    `    identifier=${python(identifier)},`,
    // The client leaves None out; there is no other way to send nothing with it.
    ...(payload === undefined ? [] : [`    payload=${python(payload)},`]),
    ")",
    "print(answer.status, answer.request_id)",
  ];
}

/** @param {string} kind @param {Request} request */
function listenLines(kind, request) {
  const free = Object.keys(request.identifier).length === 0;
  return [
    "listening = client.listen(",
    `    ${python(request.event_type)},`,
    ...(free ? [] : [`    filter=${python(request.identifier)},`]),
    ...startLines(request),
    ...endLines(request),
    ...(kind === "replay" ? ['    mode="replay_only",'] : []),
    ")",
    "with listening as notifications:",
    "    for notification in notifications:",
    "        print(notification.sequence, notification.identifier, notification.payload)",
  ];
}

/** The client begins after `start_from` and cannot say 0; from 1 on is the same.
 *  @param {Request} request */
function startLines({ from_id: id, from_date: date }) {
  if (date !== undefined) return [`    start_from=${python(date)},`];
  if (id === undefined) return [];
  const first = BigInt(id.replace("+", ""));
  const before = first > 0n ? first - 1n : 0n;
  return [`    start_from=${before},  # begins with ${before + 1n}`];
}

/** @param {Request} request */
function endLines({ to_id: id, to_date: date }) {
  if (date !== undefined) return [`    until=${python(date)},`];
  return id === undefined ? [] : [`    until=${BigInt(id.replace("+", ""))},`];
}

/** A JSON value as a Python literal. @param {any} value @returns {string} */
function python(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    const items = Object.entries(value).map(([key, item]) => `${python(key)}: ${python(item)}`);
    return `{${items.join(", ")}}`;
  }
  // Every escape of a JSON string means the same in Python.
  return visible(JSON.stringify(value));
}

/** @param {string} text */
function visible(text) {
  return text.replace(HIDDEN, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
