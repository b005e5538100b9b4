// The values of identifier fields: which texts the server takes, by the kind of the field.
//
// The rules are those of the handlers in docs/schema.md. Only blanks around numbers, dates and
// times are taken away, which the server would refuse; words are sent as they were written.

/** Why a value cannot be sent, in words for its field. */
export class Unfit extends Error {}

/** The server's numbers; JavaScript's own also take hexadecimal, and nothing at all. */
export const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const INTEGER = /^[+-]?\d+$/;
const LAST = 2n ** 63n;
const DAYS = [/^(\d{4})-(\d\d)-(\d\d)$/, /^(\d{4})(\d\d)(\d\d)$/];
const DAYS_OF_YEAR = [/^(\d{4})-(\d{3})$/];
const TIMES = [/^(\d{1,2})$/, /^(\d{1,2}):(\d\d)$/, /^(\d\d)(\d\d)$/];

/** @import { Field } from "./fields.js" */

/** @type {Partial<Record<Field["kind"], (field: Field, given: string) => string>>} */
const CHECKS = { text, choice, integer, number, date, time, expver };

/** The text to send for a value.
 *  @param {Field} field @param {string} given not empty, unless the field has a default
 *  @throws {Unfit} @returns {string} */
export function checkValue(field, given) {
  if (!given.isWellFormed()) throw new Unfit("This holds half a character.");
  return (CHECKS[field.kind] ?? text)(field, given);
}

/** The JSON integer of a text, for a constraint. @param {Field} field @param {string} given */
export function integerOf(field, given) {
  const value = Number(integer(field, given));
  // JSON numbers are doubles here: beyond, another integer than the one written would be sent.
  if (!Number.isSafeInteger(value)) throw new Unfit("Too large to compare with; use one value.");
  return value;
}

/** The JSON number of a text, for a constraint. @param {Field} field @param {string} given */
export function numberOf(field, given) {
  return Number(number(field, given));
}

/** @param {Field} field @param {string} given */
function text(field, given) {
  const length = [...given].length;
  if (field.maxLength !== null && length > field.maxLength) {
    throw new Unfit(`${length} characters are more than ${field.maxLength}.`);
  }
  return given;
}

/** @param {Field} field @param {string} given */
function choice(field, given) {
  const lower = given.toLowerCase();
  const values = field.values ?? [];
  if (values.some((value) => value.toLowerCase() === lower)) return given;
  throw new Unfit(`One of ${values.join(", ")} is wanted.`);
}

/** @param {Field} field @param {string} given */
function integer(field, given) {
  const plain = given.trim();
  if (!INTEGER.test(plain)) throw new Unfit("A whole number is wanted.");
  const value = BigInt(plain.replace("+", ""));
  if (value >= LAST || value < -LAST) throw new Unfit("This number is too large.");
  checkRange(field, value);
  return plain;
}

/** @param {Field} field @param {string} given */
function number(field, given) {
  const plain = given.trim();
  if (!NUMBER.test(plain)) throw new Unfit("A number is wanted, such as 12.5.");
  if (!Number.isFinite(Number(plain))) throw new Unfit("This number is too large.");
  checkRange(field, Number(plain));
  return plain;
}

/** @param {Field} field @param {number | bigint} value */
function checkRange(field, value) {
  if (field.range === null) return;
  const [low, high] = field.range;
  if (value < low || value > high) throw new Unfit(`${value} is outside ${low} to ${high}.`);
}

/** @param {Field} _ @param {string} given */
function date(_, given) {
  const plain = given.trim();
  if (isDay(plain) || isDayOfYear(plain)) return plain;
  throw new Unfit("A date is wanted, such as 2025-12-25, 20251225 or 2025-359.");
}

/** @param {string} plain */
function isDay(plain) {
  const [year, month, day] = numbersIn(plain, DAYS);
  return year > 0 && dayOf(year, month, day).getUTCMonth() === month - 1;
}

/** @param {string} plain */
function isDayOfYear(plain) {
  const [year, day] = numbersIn(plain, DAYS_OF_YEAR);
  return year > 0 && dayOf(year, 1, day).getUTCFullYear() === year;
}

/** The numbers in a text of one of these shapes; none in another.
 *  @param {string} plain @param {RegExp[]} shapes */
function numbersIn(plain, shapes) {
  const found = shapes.map((shape) => shape.exec(plain)).find((match) => match !== null);
  return (found?.slice(1) ?? []).map(Number);
}

/** The day of the calendar; one that is not there falls into another month or year.
 *  @param {number} year @param {number} month @param {number} day */
function dayOf(year, month, day) {
  const made = new Date(0);
  made.setUTCFullYear(year, month - 1, day);
  return made;
}

/** @param {Field} _ @param {string} given */
function time(_, given) {
  const plain = given.trim();
  const [hour, minute = 0] = numbersIn(plain, TIMES);
  if (hour <= 23 && minute <= 59) return plain;
  throw new Unfit("A time is wanted, such as 14:30, 1430 or 14.");
}

/** @param {Field} _ @param {string} given */
function expver(_, given) {
  return given;
}
