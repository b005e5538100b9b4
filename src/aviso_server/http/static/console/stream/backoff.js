// How long to stay away after a connection ended, and in which words it ended.
//
// - A connection the server closed as planned is followed by the next at once, unless it was brief:
//   a server that closes everything at once must not be asked in a circle.
// - After a failure the longest pause doubles with each try, and the pause is drawn from all of it
//   at random, so that a thousand pages do not come back in the same moment.

/** @import { Failure } from "../api.js" */

const SECOND = 1000;
/** Three of the server's heartbeats. */
export const SILENCE_MS = 90 * SECOND;
/** A connection that ended sooner was none. */
const BRIEF_MS = SECOND;
/** Time for a server that restarts. */
const SHUTDOWN_MS = 2 * SECOND;
const FIRST_MS = 250;
const LONGEST_MS = 15 * SECOND;
/** However long the server asks us to stay away. */
const LONGEST_WISH_S = 300;

/**
 * What is known of a connection that has ended.
 * @typedef {object} Connection
 * @property {number} lasted milliseconds
 * @property {boolean} opened its first frame came
 * @property {boolean} fresh it delivered something new
 * @property {boolean} limited the server's limit of history was met
 * @property {boolean} silent it was cut off because nothing was heard
 * @property {string | null} reason of the closing frame
 * @property {Failure | null} error
 */

/** Whether a connection shows that the server works: failures before it no longer count.
 *  @param {Connection} connection */
export function worked({ opened, fresh, lasted }) {
  return opened && (fresh || lasted >= BRIEF_MS);
}

/**
 * @param {Connection} connection
 * @param {number} attempt how many failed in a row, this one included
 * @param {() => number} random from 0 to 1
 * @returns {number} milliseconds
 */
export function pauseAfter(connection, attempt, random) {
  const { reason, lasted, limited, fresh, error } = connection;
  if (reason === "server_shutdown") return SHUTDOWN_MS;
  if (reason !== null && (lasted >= BRIEF_MS || (limited && fresh))) return 0;
  const wish = error?.retryAfterS;
  if (typeof wish === "number") return Math.min(wish, LONGEST_WISH_S) * SECOND;
  return random() * Math.min(LONGEST_MS, FIRST_MS * 2 ** (attempt - 1));
}

/** Why a connection ended that the server did not close.
 *  @param {Connection} connection @returns {Failure} */
export function causeOf({ error, silent, opened }) {
  if (silent) return new Error(`Nothing was heard from the server for ${SILENCE_MS / SECOND} s.`);
  // What a browser says of a network is for developers: "network error", "Failed to fetch".
  if (error !== null && !(error instanceof TypeError)) return error;
  return new Error(opened ? "The connection was lost." : "The server did not answer.");
}

/** Whether the server refused for good: asking again would give the same answer.
 *  @param {Failure | null} error */
export function refused(error) {
  const status = error?.status ?? 0;
  return status >= 100 && status < 500 && status !== 401 && status !== 429;
}
