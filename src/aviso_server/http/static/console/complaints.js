// Where an error of the server belongs: at which field of a form its message is shown.
//
// The server names the field in its message and nowhere else. Names are looked for in full, between
// the words the server puts around them, so that a name with quotes in it, or a value that reads
// like a message, leads nobody astray.

const CURSORS = ["from_id", "from_date", "to_id", "to_date"];
/** Names under which requests and messages speak of the place of a notification. */
const PLACES = ["polygon", "point", "point_cloud"];

/** How messages about a field begin. */
const BEGINNINGS = [
  (name) => `Field '${name}' `,
  (name) => `field '${name}' `,
  (name) => `Required field '${name}' `,
  (name) => `Unknown field '${name}' `,
  (name) => `identifier.${name} `,
];
const DATE = "Failed to parse date value for field ";

/**
 * @param {{code: string, message: string}} error an ApiError
 * @param {string[]} fieldNames of the event type's identifier
 * @returns {string | null} a name of these, "payload", "event_type", one of the four cursors
 *   ("from_id" and so on), or null when the message is about the whole
 */
export function fieldOf({ code, message }, fieldNames) {
  if (code === "UNKNOWN_EVENT_TYPE" || message.startsWith("event_type '")) return "event_type";
  if (message.startsWith("Payload is required ")) return "payload";
  const cursor = cursorOf(message);
  if (cursor !== undefined) return cursor;
  const own = fieldNames.filter((name) => isAbout(message, name));
  // Of two names that fit, the longer one is meant: the shorter ends in the middle of it.
  if (own.length > 0) return own.reduce((best, name) => (name.length > best.length ? name : best));
  return isAboutPlaces(message) ? (PLACES.find((name) => fieldNames.includes(name)) ?? null) : null;
}

function isAbout(message, name) {
  if (message === `${DATE}'${name}'`) return true;
  return BEGINNINGS.some((beginning) => message.startsWith(beginning(name)));
}

/** An area asked of point clouds, a point asked of areas: the form has one field for the place. */
function isAboutPlaces(message) {
  const both = message.startsWith("Cannot specify both identifier.polygon and ");
  return both || PLACES.some((name) => isAbout(message, name));
}

function cursorOf(message) {
  if (message.startsWith("Replay endpoint requires either ")) return "from_id";
  const both = CURSORS.find((name) => message.startsWith(`Cannot specify both ${name} and `));
  return both ?? CURSORS.find((name) => message.startsWith(`${name} `));
}
