// The view of one map and how it moves: at once under the hand, in a short flight otherwise.

import { clamped, fitted, panned, resized, whole, zoomed } from "./projection.js";

/** @import { Box, View } from "./projection.js" */
/** @typedef {{lat: number, lon: number, across: number}} Spot */

/** Milliseconds of a flight. */
const FLIGHT = 320;

export class Camera {
  /** @type {View | null} none until there is a size */
  view = null;
  /** @type {{from: View, to: View, start: number | null} | null} */
  #flight = null;
  /** @type {((view: View) => View) | null} what was asked for while the map had no size */
  #wanted = null;
  #still;

  /** @param {() => boolean} still whether the reader wants no motion */
  constructor(still) {
    this.#still = still;
  }

  /** The view, for who knows that there is a size. */
  get shown() {
    return /** @type {View} */ (this.view);
  }

  /** Follow the size of the element. @param {number} width @param {number} height */
  resize(width, height) {
    if (width === 0 || height === 0) return;
    this.#flight = null;
    this.view = this.view === null ? whole(width, height) : resized(this.view, width, height);
    if (this.#wanted !== null) this.view = this.#wanted(this.view);
    this.#wanted = null;
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.#flight = null;
    this.view = panned(this.shown, dx, dy);
  }

  /** @param {number} factor @param {number} x @param {number} y */
  zoom(factor, x, y) {
    this.#flight = null;
    this.view = zoomed(this.shown, factor, x, y);
  }

  /** The same in a flight; several in a row add up.
   *  @param {number} factor @param {number} [x] @param {number} [y] */
  flyCloser(factor, x, y) {
    this.#fly(zoomed(this.#flight?.to ?? this.shown, factor, x, y));
  }

  /** @param {Box[]} boxes */
  fit(boxes) {
    if (this.view === null) this.#wanted = (view) => fitted(view, boxes);
    else this.#fly(fitted(this.view, boxes));
  }

  /** Where it looks, or flies to: the middle, and how many degrees of longitude are in sight.
   *  @returns {Spot | null} */
  get spot() {
    const view = this.#flight?.to ?? this.view;
    return view && { lat: view.lat, lon: view.lon, across: view.width / view.scale };
  }

  /** Look there at once, on a screen of any size. @param {Spot} spot */
  look({ lat, lon, across }) {
    /** @param {View} view */
    const there = (view) => clamped({ ...view, lat, lon, scale: view.width / across });
    this.#flight = null;
    if (this.view === null) this.#wanted = there;
    else this.view = there(this.view);
  }

  /** Go on with a flight; true while there is one. @param {number} now */
  step(now) {
    if (this.#flight === null) return false;
    const { from, to } = this.#flight;
    this.#flight.start ??= now;
    const t = Math.min((now - this.#flight.start) / FLIGHT, 1);
    this.view = t < 1 ? between(from, to, 1 - (1 - t) ** 3) : to;
    if (t === 1) this.#flight = null;
    return t < 1;
  }

  /** @param {View} to */
  #fly(to) {
    if (this.#still()) this.view = to;
    else this.#flight = { from: this.shown, to, start: null };
  }
}

/** A view on the way: the centre moves as the scale does, so that what is fitted stays in sight.
 *  @param {View} from @param {View} to @param {number} t @returns {View} */
function between(from, to, t) {
  const scale = from.scale * (to.scale / from.scale) ** t;
  const [begun, left] = [1 / from.scale - 1 / scale, 1 / from.scale - 1 / to.scale];
  const grown = left === 0 ? t : begun / left;
  const lon = from.lon + (to.lon - from.lon) * grown;
  const lat = from.lat + (to.lat - from.lat) * grown;
  return { ...to, scale, lon, lat };
}
