// Searching in the notifications that are there: words, and conditions such as `severity>=4` or
// `payload.location~grib2`. All of them must hold. Quotes keep blanks together.

/** @import { Notification } from "../stream/sse.js" */
/** @typedef {(item: Notification) => boolean} Test */

const TERM = /"([^"]*)"|(?:[^\s"]|"[^"]*")+/g;
const CONDITION = /^([^\s"<>=!~]+)(>=|<=|!=|=|~|<|>)("?)(.*)\3$/su;

/** @type {Record<string, (value: string, wanted: string) => boolean>} */
const OPERATORS = {
  "=": (value, wanted) => value === wanted,
  "!=": (value, wanted) => value !== wanted,
  "~": (value, wanted) => value.toLowerCase().includes(wanted.toLowerCase()),
  ">": (value, wanted) => compareTexts(value, wanted) > 0,
  "<": (value, wanted) => compareTexts(value, wanted) < 0,
  ">=": (value, wanted) => compareTexts(value, wanted) >= 0,
  "<=": (value, wanted) => compareTexts(value, wanted) <= 0,
};

/** @type {WeakMap<Notification, string>} */
const known = new WeakMap();

/** The test that a search means; null if it asks for nothing. @param {string} text
 *  @returns {Test | null} */
export function searchOf(text) {
  const tests = [...text.matchAll(TERM)].map(([term, quoted]) => termTest(term, quoted));
  return tests.length === 0 ? null : (item) => tests.every((test) => test(item));
}

/** @param {string} term @param {string | undefined} quoted @returns {Test} */
function termTest(term, quoted) {
  const found = quoted === undefined ? CONDITION.exec(term) : null;
  if (found === null) {
    const word = (quoted ?? term).toLowerCase();
    return (item) => textOf(item).includes(word);
  }
  const [, path, operator, , wanted] = found;
  return (item) => {
    const value = valueAt(item, path);
    return value !== undefined && OPERATORS[operator](value, wanted);
  };
}

/**
 * What a notification has at a path, as text: a field, `sequence`, `time`, or something in its
 * payload, such as `payload.files.0.name`. Undefined if there is nothing.
 * @param {Notification} item
 * @param {string} path
 * @returns {string | undefined}
 */
export function valueAt(item, path) {
  const [first, ...steps] = path.split(".");
  const field = fieldOf(item, path);
  if (field !== undefined) return field;
  if (first === "payload") return shown(steps.reduce(inside, item.data.payload));
  if (steps.length > 0) return undefined;
  return first === "sequence" || first === "time" || first === "id"
    ? String(item[first])
    : undefined;
}

/** What a notification has in a field, as text. @param {Notification} item @param {string} name */
export function fieldOf({ data: { identifier } }, name) {
  return Object.hasOwn(identifier, name) ? shown(identifier[name]) : undefined;
}

/** Numbers by their size, other texts by their order. @param {string} one @param {string} other */
export function compareTexts(one, other) {
  const difference = Number(one) - Number(other);
  if (one.trim() !== "" && other.trim() !== "" && !Number.isNaN(difference)) return difference;
  return one < other ? -1 : one > other ? 1 : 0;
}

/** @param {any} value @param {string} step */
function inside(value, step) {
  const able = typeof value === "object" && value !== null && Object.hasOwn(value, step);
  return able ? value[step] : undefined;
}

/** @param {any} value */
function shown(value) {
  if (value === undefined || value === null) return undefined;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** All of a notification in small letters, made once. @param {Notification} item */
function textOf(item) {
  const made = known.get(item);
  if (made !== undefined) return made;
  const { identifier, payload } = item.data;
  const values = Object.values(identifier).map((value) => shown(value) ?? "");
  const text = [item.id, item.time, ...values, shown(payload) ?? ""].join("\n").toLowerCase();
  known.set(item, text);
  return text;
}
