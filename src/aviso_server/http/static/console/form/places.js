// Places as text and back: rings, points, and the place of a notification.
//
// A point is [latitude, longitude] in degrees, a ring a list of points whose last is its first.
// Text is read more freely than the server reads it (pairs on lines, separated by blanks,
// semicolons or commas, or JSON), and what comes out is always an array the server takes.

import { NUMBER } from "./values.js";

const AXES = [
  { axis: "latitude", most: 90 },
  { axis: "longitude", most: 180 },
];

/** @typedef {[number, number]} Point latitude, longitude */

/**
 * The ring a text describes; an open one is closed.
 * @param {string} text
 * @returns {Point[]}
 * @throws {Error} in words for the form
 */
export function parseRing(text) {
  const points = parsePoints(text);
  if (!closed(points)) points.push([...points[0]]);
  if (points.length < 4) throw new Error("An area needs at least three corners.");
  return points;
}

/**
 * The points a text describes, at least one.
 * @param {string} text
 * @returns {Point[]}
 * @throws {Error} in words for the form
 */
export function parsePoints(text) {
  const trimmed = text.trim();
  const points = trimmed.startsWith("[") ? fromJson(trimmed) : fromNumbers(trimmed);
  if (points.length === 0) throw new Error("No coordinates yet.");
  points.forEach(checkPoint);
  return points;
}

/**
 * The one point a text describes.
 * @param {string} text
 * @returns {Point}
 * @throws {Error} in words for the form
 */
export function parsePoint(text) {
  const trimmed = text.trim();
  // [52.5,13.4] is how the server writes one point.
  const [point, ...others] = parsePoints(/^\[[^[]/.test(trimmed) ? `[${trimmed}]` : trimmed);
  if (others.length > 0) throw new Error("One point is wanted, such as 52.5,13.4.");
  return point;
}

/** A ring, or any points, as a text that reads back as the same. @param {Point[]} points */
export function ringText(points) {
  return points.map((point) => point.join(",")).join(" ");
}

/** Whether a value is a ring the server takes. @param {any} value */
export function isRing(value) {
  return isPoints(value) && value.length >= 4 && closed(value);
}

/** Whether a value is a list of points the server takes. @param {any} value */
export function isPoints(value) {
  return Array.isArray(value) && value.length > 0 && value.every((point) => !complaint(point));
}

/** The place of a notification; null if it has none, or one that makes no sense.
 *  @param {any} notification a CloudEvent, of which nothing is taken for granted
 *  @returns {{polygon?: Point[], points?: Point[]} | null} one of the two */
export function geometryOf(notification) {
  const { polygon, point_cloud: points } = notification?.data?.identifier ?? {};
  const ring = typeof polygon === "string" ? ringOf(polygon) : polygon;
  if (isRing(ring)) return { polygon: ring };
  return isPoints(points) ? { points } : null;
}

/** The ring of a stored text (the server may be set to send those); null for another text.
 *  @param {string} text */
function ringOf(text) {
  try {
    return parseRing(text);
  } catch {
    return null;
  }
}

/** @param {Point[]} points */
function closed(points) {
  const [first, last] = [points[0], points[points.length - 1]];
  return first[0] === last[0] && first[1] === last[1];
}

/** @param {string} text */
function fromJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("This begins like JSON and is none; pairs look like [[52.5,13.4], ...].");
  }
}

/** @param {string} text @returns {Point[]} */
function fromNumbers(text) {
  const inner = /^\((.*)\)$/s.exec(text)?.[1] ?? text;
  const plain = inner.trim().replace(/[\s,;]+$/, "");
  if (plain === "") return [];
  const numbers = plain.split(/\s*[,;]\s*|\s+/).map(numberOf);
  if (numbers.length % 2 === 1) throw new Error("The last latitude has no longitude.");
  const half = { length: numbers.length / 2 };
  return Array.from(half, (_, at) => [numbers[2 * at], numbers[2 * at + 1]]);
}

/** @param {string} text */
function numberOf(text) {
  if (!NUMBER.test(text)) throw new Error(`“${text}” is not a number.`);
  return Number(text);
}

/** @param {any} point @param {number} at */
function checkPoint(point, at) {
  const why = complaint(point);
  if (why !== "") throw new Error(`Point ${at + 1}: ${why}.`);
}

/** What is wrong with a point; empty for a good one. @param {any} point */
function complaint(point) {
  if (!Array.isArray(point) || point.length !== 2) return "a latitude and a longitude are wanted";
  for (const [at, { axis, most }] of AXES.entries()) {
    const number = point[at];
    if (typeof number !== "number") return `the ${axis} is not a number`;
    // Written so that NaN is refused.
    if (!(Math.abs(number) <= most)) return `${axis} ${number} is outside -${most} to ${most}`;
  }
  return "";
}
