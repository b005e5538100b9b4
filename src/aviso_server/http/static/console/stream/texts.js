// What happens to a stream, in words for people: one function for each thing that is told.

import { count } from "../moments.js";

const CLOSINGS = new Map(Object.entries({
  max_duration_reached: "The server ended the connection, as it does after a while.",
  server_shutdown: "The server is shutting down or restarting.",
  end_of_stream: "The server ended the stream.",
}));

/** @typedef {{kind: string, text: string, frame: object | null}} Message */

/** The first frame of the first connection. @param {any} frame */
export function opened(frame) {
  if (frame.type === "connection_established") {
    return message("opened", "Connected. What is published from now on appears.", frame);
  }
  const from = frame.from_sequence ?? null;
  const start = from === null ? frame.from_date : sequence(from);
  const text = `Connected. Reading history from ${from === 0 ? "the beginning" : start} on.`;
  return message("opened", text, frame);
}

/** The first frame of every later connection. @param {any} frame @param {number | null} last */
export function resumed(frame, last) {
  const where = last === null ? "" : ` after ${sequence(last)}`;
  return message("resumed", `Connected again; going on${where}.`, frame);
}

/** The start is older than what is kept. @param {any} frame */
export function gap(frame) {
  const [first, begin] = [frame.requested_sequence, frame.first_available_sequence];
  const to = begin - 1;
  const lost = first === to
    ? `Sequence ${count(to)} is`
    : `Sequences ${count(first)} to ${count(to)} are`;
  return message("gap", `${lost} no longer kept; history begins at ${count(begin)}.`, frame);
}

/** The server's limit of history for one request. @param {any} frame @param {boolean} goesOn */
export function limit(frame, goesOn) {
  const stops = `The server stops after ${count(frame.max_allowed)} notifications of history.`;
  return message("limit", `${stops} ${goesOn ? "Asking for more." : "There may be more."}`, frame);
}

/** All history has been read. @param {any} frame @param {boolean} live */
export function completed(frame, live) {
  const text = live ? "History is complete; what follows is live." : "History is complete.";
  return message("completed", text, frame);
}

/** The server said why it ends the connection. @param {any} frame */
export function closing(frame) {
  const text = CLOSINGS.get(frame.reason) ?? `The server ended the stream: ${frame.reason}.`;
  return message("closing", `${text} Connecting again.`, frame);
}

/** The stream failed, or one notification in it cannot be read. @param {any} frame */
export function failure(frame) {
  const one = frame.sequence !== undefined;
  const what = one ? `Sequence ${count(frame.sequence)} cannot be read` : "The stream failed";
  return message("error", `${what}: ${frame.message} (request ${frame.request_id})`, frame);
}

/** The connection broke, or could not be made. @param {import("../api.js").Failure} error */
export function lost(error) {
  const request = error.requestId ? ` (request ${error.requestId})` : "";
  return message("lost", `${error.message}${request} Trying again.`, null);
}

/** @param {number} number */
function sequence(number) {
  return `sequence ${count(number)}`;
}

/** @param {string} kind @param {string} text @param {object | null} frame */
function message(kind, text, frame) {
  return { kind, text, frame };
}
