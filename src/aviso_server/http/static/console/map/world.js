// The outlines of the land. They are kept in several degrees of detail, since a far look at the
// world needs a fraction of the points, and in pieces, of which only those in sight are drawn.
// How the file is made and written is told in tools/coastlines.py.

import { boxOf } from "./rings.js";

/** Degrees between points kept; the finest is the file's own. */
const DETAILS = [0.2, 0.06, 0];
/** Pixels that a point may be away before the next finer detail is needed. */
const FINE = 0.8;
/** Outlines with fewer points share a piece with their neighbours. */
const LARGE = 400;
/** Degrees; the side of the squares by which small outlines are grouped. */
const SQUARE = 45;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUES = new Map([...DIGITS].map((digit, value) => [digit, value]));

/** @import { Box } from "./projection.js" */
/** @import { Ring } from "./rings.js" */
/** @typedef {{box: Box, area: Path2D, line: Path2D}} Piece */
/** @typedef {{land: Piece[], water: Piece[], borders: Piece[]}} Outlines */

/** @type {Map<string, Promise<World>>} */
const loading = new Map();

/** The world at an address; every map of the page shares it.
 *  @param {string} url @returns {Promise<World>} */
export function loadWorld(url) {
  const known = loading.get(url);
  if (known !== undefined) return known;
  const world = fetched(url);
  // A failure is not kept: the next map may have more luck.
  world.catch(() => loading.delete(url));
  loading.set(url, world);
  return world;
}

/** @param {string} url */
async function fetched(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`no coastlines: status ${answer.status}`);
  return new World(await answer.json());
}

export class World {
  #lines;
  /** @type {Map<number, Outlines>} */
  #details = new Map();

  /** @param {{step: number, land: string[], water: string[], borders: string[]}} file */
  constructor({ step, land, water, borders }) {
    /** @param {string[]} texts */
    const read = (texts) => texts.map((text) => decoded(text, step));
    this.#lines = { land: read(land), water: read(water), borders: read(borders) };
  }

  /** What to draw where a degree has so many pixels. @returns {Outlines} @param {number} scale */
  at(scale) {
    const apart = DETAILS.find((degrees) => degrees * scale <= FINE) ?? 0;
    const known = this.#details.get(apart) ?? this.#outlines(apart);
    this.#details.set(apart, known);
    return known;
  }

  /** @param {number} apart @returns {Outlines} */
  #outlines(apart) {
    const { land, water, borders } = this.#lines;
    return {
      land: pieces(land, apart, 4),
      water: pieces(water, apart, 4),
      borders: pieces(borders, apart, 2),
    };
  }
}

/** The points [latitude, longitude] of a line in the file.
 *  @param {string} text @param {number} step @returns {[number, number][]} */
export function decoded(text, step) {
  /** @type {[number, number][]} */
  const points = [];
  const at = [0, 0];
  let [axis, value, shift] = [0, 0, 0];
  for (const digit of text) {
    const bits = VALUES.get(digit) ?? 0;
    value |= (bits & 31) << shift;
    shift += 5;
    if (bits >= 32) continue;
    at[axis] += value & 1 ? -((value + 1) >> 1) : value >> 1;
    if (axis === 1) points.push([at[1] * step, at[0] * step]);
    [axis, value, shift] = [1 - axis, 0, 0];
  }
  return points;
}

/** @param {Ring[]} lines @param {number} apart @param {number} least */
function pieces(lines, apart, least) {
  /** @type {Map<string | number, Piece>} */
  const grouped = new Map();
  lines.forEach((line, number) => {
    const points = thinned(line, apart);
    if (points.length < least) return;
    const box = boxOf(points);
    const square = `${Math.floor(box[0] / SQUARE)} ${Math.floor(box[1] / SQUARE)}`;
    const key = points.length < LARGE ? square : number;
    const piece = grouped.get(key) ?? { box, area: new Path2D(), line: new Path2D() };
    grouped.set(key, piece);
    piece.box = joined(piece.box, box);
    trace(piece, points);
  });
  return [...grouped.values()];
}

/** Without points that are nearer than so many degrees to the one before; both ends stay.
 *  @param {Ring} line @param {number} apart */
function thinned(line, apart) {
  let last = line[0];
  return line.filter((point, i) => {
    const far = Math.hypot(point[0] - last[0], point[1] - last[1]) >= apart;
    if (!far && i > 0 && i < line.length - 1) return false;
    last = point;
    return true;
  });
}

/** Edges to the pole close Antarctica's area and are no coast.
 *  @param {Piece} piece @param {Ring} points */
function trace({ area, line }, points) {
  points.forEach(([lat, lon], i) => {
    const inner = i > 0 && lat > -90 && points[i - 1][0] > -90;
    if (i === 0) area.moveTo(lon, lat);
    else area.lineTo(lon, lat);
    if (inner) line.lineTo(lon, lat);
    else line.moveTo(lon, lat);
  });
}

/** @param {Box} a @param {Box} b @returns {Box} */
function joined(a, b) {
  const [west, south] = [Math.min(a[0], b[0]), Math.min(a[1], b[1])];
  return [west, south, Math.max(a[2], b[2]), Math.max(a[3], b[3])];
}
