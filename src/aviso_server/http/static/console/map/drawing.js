// What a reader draws: corners one after the other, a box, or a point. Pure state; who calls it
// decides which click or key means what.

import { decimalsAt, finished, finishedPoint } from "./rings.js";

/** More corners than this nobody draws by hand, and filters get slow. */
const MOST = 500;
const FEW = "An area needs at least three corners.";
const CUT = "The area crossed 180° and was cut there: the server does not match across it. "
  + "Draw the other side as an area of its own.";

/** @typedef {{polygon?: [number, number][], point?: [number, number]}} Drawn one of the two */

export class Drawing {
  /** @type {[number, number][]} latitude and longitude, which may run on beyond 180 degrees */
  corners = [];
  /** Where the next corner would be. @type {[number, number] | null} */
  next = null;
  /** The other end of a box being dragged. @type {[number, number] | null} */
  boxed = null;

  /** @param {"polygon" | "point"} kind */
  constructor(kind) {
    this.kind = kind;
  }

  /** @param {[number, number]} place */
  add(place) {
    if (this.corners.length < MOST) this.corners.push(place);
  }

  /** Take the last corner back; false if there is none. */
  back() {
    return this.corners.pop() !== undefined;
  }

  /** What is drawn so far, with the corner to come. @returns {[number, number][]} */
  get outline() {
    if (this.boxed !== null && this.next !== null) return boxBetween(this.boxed, this.next);
    return this.next === null ? this.corners : [...this.corners, this.next];
  }
}

/** The corners of the box between two opposite ones, counterclockwise from the south-west.
 *  @param {[number, number]} a @param {[number, number]} b @returns {[number, number][]} */
export function boxBetween(a, b) {
  const [south, north] = [Math.min(a[0], b[0]), Math.max(a[0], b[0])];
  const [west, east] = [Math.min(a[1], b[1]), Math.max(a[1], b[1])];
  return [[south, west], [south, east], [north, east], [north, west]];
}

/** What came of drawing, where a degree has so many pixels, and what to tell about it.
 *  @param {[number, number][]} corners @param {number} scale
 *  @returns {{drawn: Drawn | null, message: string | null}} */
export function polygonOf(corners, scale) {
  const { ring, cut } = finished(corners, decimalsAt(scale));
  if (ring === null) return { drawn: null, message: FEW };
  return { drawn: { polygon: ring }, message: cut ? CUT : null };
}

/** @param {[number, number]} place @returns {Drawn} @param {number} scale */
export function pointOf([lat, lon], scale) {
  return { point: finishedPoint(lat, lon, decimalsAt(scale)) };
}
