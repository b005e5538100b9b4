// Times: the forms in which the server takes a date, and how times, spans and numbers are shown.
//
// `check` knows exactly the forms the server accepts (docs/protocol.md), so that a form can say
// what is wrong before anything is sent. Everything shown is UTC: producers and operators sit in
// many time zones, and the server's own texts are UTC too.

// What the server trims, and takes between a time and its offset: wider than the blanks of
// JavaScript in one place and narrower in another.
const BLANK =
  "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const OUTER_BLANKS = new RegExp(`^${BLANK}+|${BLANK}+$`, "g");

const DAY = "(?<year>[0-9]{4})-(?<month>[0-9]{2})-(?<day>[0-9]{2})";
const TIME = "(?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-9]{2})(?:\\.(?<fraction>[0-9]+))?";
const OFFSET = "(?<sign>[+-])(?<offHour>[0-9]{2}):(?<offMinute>[0-9]{2})";
/** @param {string} pattern */
const loose = (pattern) => pattern.replaceAll("{2}", "{1,2}");
const LOOSE = `${loose(DAY)}<gap>${loose(TIME)}`;
const FORMS = [
  `${DAY}[Tt ]${TIME}(?:[Zz]|${OFFSET})`,
  `${LOOSE.replace("<gap>", " ")}${BLANK}*${OFFSET.replace(":", ":?")}`,
  LOOSE.replace("<gap>", "[T ]"),
].map((form) => new RegExp(`^${form}$`));

const LAST_INTEGER = 2n ** 63n - 1n;
/** The last millisecond of the year 9999. */
const LAST_EPOCH_MS = 253_402_300_799_999n;

const EXAMPLE = "such as 2025-06-09T13:15:00Z";
/** What people try, and what is missing from it. */
const NEARLY = [
  { like: /^\d{4}-\d{1,2}-\d{1,2}$/, why: `a time of day is missing, ${EXAMPLE}` },
  { like: /^\d{4}-\d{1,2}-\d{1,2}[Tt ]\d{1,2}:\d{1,2}$/, why: `seconds are missing, ${EXAMPLE}` },
  { like: /^-\d+$/, why: "seconds before 1970 are not taken" },
];

/**
 * @typedef {{ok: true, kind: "seconds" | "milliseconds" | "date", instant: Date}
 *   | {ok: false, error: string}} Checked
 */

/**
 * Whether the server takes a text as a date.
 * @param {string} text
 * @returns {Checked}
 */
export function check(text) {
  const trimmed = text.replace(OUTER_BLANKS, "");
  if (trimmed === "") return wrong(`empty; write a date and a time, ${EXAMPLE}`);
  const epoch = /^\+?0*([0-9]+)$/.exec(trimmed);
  if (epoch !== null) return fromEpoch(epoch[1]);
  for (const form of FORMS) {
    const found = form.exec(trimmed);
    const instant = found?.groups && instantOf(found.groups);
    if (instant) return { ok: true, kind: "date", instant };
  }
  const nearly = NEARLY.find(({ like }) => like.test(trimmed));
  return wrong(nearly?.why ?? `a date and a time are wanted, ${EXAMPLE}, or seconds since 1970`);
}

/** Up to 11 digits are seconds, more are milliseconds. @param {string} digits @returns {Checked} */
function fromEpoch(digits) {
  if (digits.length > 19 || BigInt(digits) > LAST_INTEGER) return wrong("the number is too large");
  if (digits.length <= 11) {
    return { ok: true, kind: "seconds", instant: new Date(Number(digits) * 1000) };
  }
  if (BigInt(digits) > LAST_EPOCH_MS) return wrong("that is after the year 9999");
  return { ok: true, kind: "milliseconds", instant: new Date(Number(digits)) };
}

/** The instant of a matched text, to the millisecond; null when there is no such moment.
 *  @param {Record<string, string>} groups */
function instantOf(groups) {
  /** @param {string} name */
  const part = (name) => Number(groups[name] ?? 0);
  const [hour, minute, second] = [part("hour"), part("minute"), part("second")];
  if (hour > 23 || minute > 59 || second > 60) return null;
  if (part("offHour") > 23 || part("offMinute") > 59) return null;
  const date = new Date(0);
  date.setUTCFullYear(part("year"), part("month") - 1, part("day"));
  // A day that is not in the calendar falls into another month.
  if (date.getUTCMonth() !== part("month") - 1) return null;
  const offset = (part("offHour") * 60 + part("offMinute")) * (groups.sign === "-" ? -1 : 1);
  // A leap second is the first instant of the next minute, whatever its fraction.
  const ms = second === 60 ? 0 : Number((groups.fraction ?? "").slice(0, 3).padEnd(3, "0"));
  date.setUTCHours(hour, minute - offset, second, ms);
  return date;
}

/** @param {string} error @returns {Checked} */
function wrong(error) {
  return { ok: false, error };
}

/** From the value of a `datetime-local` control, taken as UTC, to a text the server takes.
 *  @param {string} value */
export function fromCalendar(value) {
  if (value === "") return "";
  const seconds = /T\d\d:\d\d$/.test(value) ? ":00" : "";
  return `${value}${seconds}Z`;
}

/** From a date to the value of a `datetime-local` control, in UTC and whole seconds.
 *  @param {Date} date */
export function toCalendar(date) {
  return date.toISOString().slice(0, 19);
}

const STORED = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?Z$/;

/** The time of day of a stored notification, to the millisecond; another text as it is.
 *  @param {string} timeText */
export function clock(timeText) {
  const found = STORED.exec(timeText);
  return found ? `${found[2]}.${(found[3] ?? "").slice(0, 3).padEnd(3, "0")}` : String(timeText);
}

/** The same with its day and every digit. @param {string} timeText */
export function stamp(timeText) {
  const found = STORED.exec(timeText);
  if (!found) return String(timeText);
  return `${found[1]} ${found[2]}${found[3] ? `.${found[3]}` : ""} UTC`;
}

/** How long ago something was that happened so many milliseconds before now. @param {number} ms */
export function ago(ms) {
  if (!Number.isFinite(ms)) return "";
  return ms < 1000 ? "just now" : `${span(Math.floor(ms / 1000))} ago`;
}

/**
 * How long ago a moment was.
 * @param {string | number} moment an ISO text, or nanoseconds since the epoch
 * @param {number} [now] milliseconds since the epoch
 */
export function since(moment, now = Date.now()) {
  return ago(now - (typeof moment === "number" ? moment / 1e6 : Date.parse(moment)));
}

const SPANS = [
  { unit: "days", size: 86_400 },
  { unit: "h", size: 3600 },
  { unit: "min", size: 60 },
  { unit: "s", size: 1 },
];

/** A span of time in the largest unit of which it has at least two: "7 days", "36 h", "90 s".
 *  @param {number} seconds */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const { size, unit } = SPANS.find((known) => seconds >= 2 * known.size)
    ?? SPANS[SPANS.length - 1];
  return `${count(Math.floor(seconds / size))} ${unit}`;
}

const COUNT = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** A whole number, with separators between thousands. @param {number} number */
export function count(number) {
  return Number.isFinite(number) ? COUNT.format(number) : "";
}

/** How often something happens: per second, minute or hour, whichever gives a good number.
 *  @param {number} perSecond */
export function rate(perSecond) {
  if (!Number.isFinite(perSecond)) return "";
  if (perSecond >= 9.95) return `${count(perSecond)}/s`;
  if (perSecond >= 0.1 || perSecond <= 0) return `${Number(perSecond.toFixed(1))}/s`;
  if (perSecond * 60 >= 1) return `${Math.round(perSecond * 60)}/min`;
  return perSecond * 3600 >= 0.5 ? `${Math.round(perSecond * 3600)}/h` : "< 1/h";
}

const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];

/** A size, in powers of a thousand. @param {number} number */
export function bytes(number) {
  if (!Number.isFinite(number)) return "";
  let [size, unit] = [number, 0];
  // Before rounding could make it a thousand of a unit.
  while (size >= 999.5 && unit < SIZES.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${size >= 9.95 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${SIZES[unit]}`;
}
