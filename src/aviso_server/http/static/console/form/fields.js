// From the public schema of an event type to the fields of a form; from a form to an identifier.
//
// Values are checked by the server's own rules, so that a mistake shows at its field before
// anything is sent; the server still has the last word. Field names come from a configuration and
// may be anything, so objects are built from entries and asked with `Object.hasOwn`.

import { geometryOf, isPoints, isRing, parsePoint, parsePoints, parseRing } from "./places.js";
import { checkValue, integerOf, numberOf, Unfit } from "./values.js";

export { geometryOf, parsePoint, parsePoints, parseRing, ringText } from "./places.js";

/** @type {Map<string, Field["kind"]>} */
const KINDS = new Map(Object.entries({
  StringHandler: "text",
  EnumHandler: "choice",
  IntHandler: "integer",
  FloatHandler: "number",
  DateHandler: "date",
  TimeHandler: "time",
  ExpverHandler: "expver",
  PolygonHandler: "polygon",
  PointCloudHandler: "cloud",
}));
const NUMERIC = ["eq", "in", "between", "gte", "lte", "gt", "lt"];
/** @type {Partial<Record<Field["kind"], string[]>>} */
const OPERATORS = {
  integer: NUMERIC,
  number: NUMERIC,
  choice: ["eq", "in"],
  polygon: ["area", "point"],
  cloud: ["area"],
};

const PLACES = ["polygon", "point", "point_cloud"];

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {"text"|"choice"|"integer"|"number"|"date"|"time"|"expver"|"polygon"|"cloud"} kind
 * @property {boolean} required on watch and replay; a notification always has every field
 * @property {string} description empty if there is none
 * @property {string[] | null} values of a choice
 * @property {[number, number] | null} range of an integer or number, inclusive
 * @property {number | null} maxLength of a text, in characters
 * @property {string | null} default of an expver, for an empty text
 * @property {number | null} maxPoints of a cloud
 * @property {string | null} format in which the server writes a date
 * @property {string[]} operators "any" first, unless the field is required
 */

/**
 * An event type as `GET api/v1/schema` shows it, and the order of its fields in a topic.
 * @typedef {{identifier: Record<string, Record<string, any>>, payload?: {required: boolean},
 *   order?: string[]}} View
 */

/**
 * Where a form shows an error about a field: it has one for the place, whatever requests call it.
 * @param {string | null} name
 * @param {string[]} names of the form's fields
 * @returns {string | null}
 */
export function placeOf(name, names) {
  if (name === null || names.includes(name) || !PLACES.includes(name)) return name;
  return PLACES.find((place) => names.includes(place)) ?? null;
}

/** In the order of a topic, which is how people think of them; those that are in none come last.
 *  @param {View} view @returns {Field[]} */
export function fieldsOf(view) {
  const { order = [] } = view;
  /** @param {string} name */
  const place = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  const ordered = Object.entries(view.identifier).sort(([a], [b]) => place(a) - place(b));
  return ordered.map(([name, shown]) => {
    const kind = KINDS.get(shown.type) ?? "text";
    const required = shown.required === true;
    return {
      name,
      kind,
      required,
      description: shown.description ?? "",
      values: shown.values ?? null,
      range: shown.range ?? null,
      maxLength: shown.max_length ?? null,
      default: shown.default ?? null,
      maxPoints: shown.max_points ?? null,
      format: shown.canonical_format ?? null,
      operators: [...(required ? [] : ["any"]), ...(OPERATORS[kind] ?? ["eq"])],
    };
  });
}

/**
 * What a form says of one field: an operator, and as much as it needs. Places may be texts.
 * @typedef {{op: string, value?: string, values?: string[], low?: string, high?: string,
 *   polygon?: [number, number][] | string, point?: [number, number] | string}} Condition
 */

/**
 * The filter of a watch or replay. Nothing given is no condition.
 * @param {Field[]} fields
 * @param {Record<string, Condition>} values
 * @returns {{identifier: object, problems: Record<string, string>}}
 */
export function filterOf(fields, values) {
  return collect(fields, (field) => {
    const given = Object.hasOwn(values, field.name) ? values[field.name] : { op: "any" };
    if (!isBlank(given)) return condition(field, given);
    if (field.required) throw new Unfit("This event type cannot be followed without it.");
    return null;
  });
}

/**
 * The identifier of a notification, which has every field of the schema.
 * @param {Field[]} fields
 * @param {Record<string, string | [number, number][]>} values
 * @returns {{identifier: object, problems: Record<string, string>}}
 */
export function announcementOf(fields, values) {
  return collect(fields, (field) => {
    const given = Object.hasOwn(values, field.name) ? values[field.name] : "";
    if (field.kind === "polygon") return [field.name, ring(given)];
    if (field.kind === "cloud") return [field.name, cloud(field, given)];
    if (given === "" && field.default === null) throw new Unfit("A notification has every field.");
    return [field.name, checkValue(field, String(given))];
  });
}

/** Characters of one value in a summary. */
const SHOWN = 60;

/** The identifier of a notification in one line.
 *  @param {Record<string, any>} identifier
 *  @returns {string} such as "class=od, step=24, polygon of 4 points" */
export function summary(identifier) {
  const { polygon, points } = geometryOf({ data: { identifier } }) ?? {};
  const texts = Object.entries(identifier ?? {}).map(([name, value]) => {
    // The last point of a ring is its first: not one to count.
    if (name === "polygon" && polygon) return `polygon of ${polygon.length - 1} points`;
    if (name === "point_cloud" && points) return `cloud of ${points.length} points`;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `${name}=${clipped(text, SHOWN)}`;
  });
  return texts.join(", ");
}

/** The beginning of a text that is longer than so many characters.
 *  @param {string} text @param {number} most */
export function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}

/** Entries of an identifier, and what is wrong with the others, by field.
 *  @param {Field[]} fields @param {(field: Field) => [string, any] | null} entryOf */
function collect(fields, entryOf) {
  const entries = [];
  const problems = [];
  for (const field of fields) {
    try {
      const entry = entryOf(field);
      if (entry !== null) entries.push(entry);
    } catch (error) {
      problems.push([field.name, /** @type {Error} */ (error).message]);
    }
  }
  return { identifier: Object.fromEntries(entries), problems: Object.fromEntries(problems) };
}

/** @param {Condition} given */
function isBlank({ op, value, values, low, high, polygon, point }) {
  if (op === "any") return true;
  /** @type {Record<string, any>} */
  const operand = { in: values, between: `${low ?? ""}${high ?? ""}`, area: polygon, point };
  return ((Object.hasOwn(operand, op) ? operand[op] : value) ?? "").length === 0;
}

/** The entry of a condition, in the wire's form.
 *  @param {Field} field @param {Condition} given @returns {[string, any]} */
function condition(field, { op, value, values, low, high, polygon, point }) {
  const { name } = field;
  if (!field.operators.includes(op)) throw new Unfit(`“${op}” cannot be asked of this field.`);
  switch (op) {
    case "eq":
      return [name, checkValue(field, value ?? "")];
    case "in":
      return [name, { in: values?.map((item) => operandOf(field, item)) }];
    case "between":
      return [name, { between: between(operandOf(field, low), operandOf(field, high)) }];
    // The server knows these two names, whatever the place of a notification is.
    case "area":
      return ["polygon", ring(polygon)];
    case "point":
      return ["point", onePoint(point)];
    default:
      return [name, { [op]: operandOf(field, value) }];
  }
}

/** A value inside of a constraint: a JSON number, or a word.
 *  @param {Field} field @param {string} [text] */
function operandOf(field, text = "") {
  if (field.kind === "integer") return integerOf(field, text);
  return field.kind === "number" ? numberOf(field, text) : checkValue(field, text);
}

/** @param {number | string} low @param {number | string} high */
function between(low, high) {
  if (low > high) throw new Unfit("The first number is larger than the second.");
  return [low, high];
}

/** @param {any} given */
function ring(given) {
  if (typeof given === "string") return parseRing(given);
  if (!isRing(given)) throw new Unfit("This is not a closed ring of [latitude, longitude].");
  return given;
}

/** @param {any} given */
function onePoint(given) {
  if (typeof given === "string") return parsePoint(given);
  if (!isPoints([given])) throw new Unfit("This is not a [latitude, longitude].");
  return given;
}

/** @param {Field} field @param {any} given */
function cloud(field, given) {
  const points = typeof given === "string" ? parsePoints(given) : given;
  if (!isPoints(points)) throw new Unfit("These are not pairs of [latitude, longitude].");
  if (field.maxPoints !== null && points.length > field.maxPoints) {
    throw new Unfit(`${points.length} points are more than ${field.maxPoints}.`);
  }
  return points;
}
