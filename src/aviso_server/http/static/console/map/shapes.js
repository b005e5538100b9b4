// The shapes of notifications: a store with a cap, ready to be drawn and to be found by a click.
//
// Rules
// - The newest CAP shapes are kept, and fewer if they have very many points; of older ones only
//   the ids, up to FORGOTTEN, to count them. A shape added again is new again.
// - Shapes are drawn in batches, oldest first: one path to fill and one to stroke for some hundred
//   shapes. Where shapes of one batch overlap the fill is as strong as that of one, so a thousand
//   notifications about the same area leave the map readable.
// - Rings run counterclockwise in a batch, for opposite ones would cancel out where they overlap.
//   One that crosses itself cannot be turned, so it is filled on its own.

import { areaOf, boxOf, displayed, inside, mayCross, nearEdge } from "./rings.js";

/** How many shapes are drawn. */
export const CAP = 1000;
/** Points that are drawn in all; a corner of a ring counts as CORNER of them. */
const POINTS = 200_000;
const CORNER = 4;
const BATCH = 100;
const FORGOTTEN = 100_000;

/** @import { Ring } from "./rings.js" */
/** @typedef {{id: string, polygon?: Ring, points?: Ring}} Given */
/** @typedef {{id: string, box: import("./projection.js").Box, ring: Ring | null,
 *  crossing: boolean, alone: boolean, path: Path2D | null, points: Float32Array, weight: number,
 *  born: number, batch: Batch}} Shape  `points` are longitude, latitude by turns */

class Batch {
  /** @type {Map<string, Shape>} */
  shapes = new Map();
  full = 0;
  /** @type {ReturnType<typeof drawnOf> | null} */
  #drawn = null;

  /** @param {Shape} shape */
  add(shape) {
    this.shapes.set(shape.id, shape);
    this.full += 1;
    this.#drawn = null;
  }

  /** @param {Shape} shape */
  remove(shape) {
    this.shapes.delete(shape.id);
    this.#drawn = null;
  }

  /** What to draw: fills, outlines, dashed outlines, clouds and the box around all. */
  get drawn() {
    this.#drawn ??= drawnOf([...this.shapes.values()]);
    return this.#drawn;
  }
}

export class Shapes {
  /** @type {Map<string, Shape>} oldest first */
  #shapes = new Map();
  /** @type {Set<Batch>} oldest first */
  #batches = new Set();
  #newest = new Batch();
  /** @type {Set<string>} */
  #gone = new Set();
  #weight = 0;
  /** Another number whenever something else is to be drawn. */
  version = 0;

  get shown() {
    return this.#shapes.size;
  }

  get total() {
    return this.#shapes.size + this.#gone.size;
  }

  /** @param {string | null} id */
  get(id) {
    return id === null ? undefined : this.#shapes.get(id);
  }

  /** Add shapes, the newest last. What has no valid geometry is left out.
   *  @param {Given[]} given @param {number} now milliseconds, for what is new */
  add(given, now) {
    // Of very many at once the older ones would not be drawn anyway.
    const skipped = Math.max(0, given.length - CAP);
    for (const { id } of given.slice(0, skipped)) this.#forget(id);
    for (const item of given.slice(skipped)) this.#insert(shapeOf(item, now));
  }

  /** @param {Iterable<string>} ids */
  remove(ids) {
    for (const id of ids) {
      this.#gone.delete(id);
      this.#take(id);
    }
  }

  clear() {
    this.version += 1;
    this.#shapes.clear();
    this.#batches.clear();
    this.#gone.clear();
    this.#newest = new Batch();
    this.#weight = 0;
  }

  /** What to draw, batch by batch, oldest first. */
  drawn() {
    return [...this.#batches].map((batch) => batch.drawn);
  }

  /** The boxes around these shapes, or all. @param {Iterable<string>} ids */
  boxes(ids = this.#shapes.keys()) {
    const found = [...ids].map((id) => this.#shapes.get(id));
    return found.filter((shape) => shape !== undefined).map((shape) => shape.box);
  }

  /** At most so many of the newest shapes that were born after a moment, oldest first.
   *  @param {number} moment @param {number} most */
  since(moment, most) {
    /** @type {Shape[]} */
    const found = [];
    for (const batch of [...this.#batches].reverse()) {
      for (const shape of [...batch.shapes.values()].reverse()) {
        if (shape.born <= moment || found.length === most) return found.reverse();
        found.push(shape);
      }
    }
    return found.reverse();
  }

  /** The ids of the shapes at a place, the newest first; `reach` is the nearness of a point or an
   *  outline in degrees. @returns {string[]}
   *  @param {number} lat
   *  @param {number} lon
   *  @param {number} reach */
  at(lat, lon, reach) {
    const found = [...this.#shapes.values()].filter((shape) => touches(shape, lat, lon, reach));
    return found.map((shape) => shape.id).reverse();
  }

  /** @param {Omit<Shape, "batch"> | null} made */
  #insert(made) {
    if (made === null) return;
    this.remove([made.id]);
    if (this.#newest.full >= BATCH) this.#newest = new Batch();
    const shape = { ...made, batch: this.#newest };
    this.version += 1;
    this.#newest.add(shape);
    this.#batches.add(this.#newest);
    this.#shapes.set(shape.id, shape);
    this.#weight += shape.weight;
    while (this.#shapes.size > 1 && (this.#shapes.size > CAP || this.#weight > POINTS)) {
      const [oldest] = this.#shapes.keys();
      this.#forget(oldest);
    }
  }

  /** @param {string} id */
  #forget(id) {
    this.#take(id);
    this.#gone.add(id);
    const [oldest] = this.#gone;
    if (this.#gone.size > FORGOTTEN) this.#gone.delete(oldest);
  }

  /** @param {string} id */
  #take(id) {
    const shape = this.#shapes.get(id);
    if (shape === undefined) return;
    this.version += 1;
    this.#shapes.delete(id);
    this.#weight -= shape.weight;
    shape.batch.remove(shape);
    if (shape.batch.shapes.size === 0) this.#batches.delete(shape.batch);
  }
}

/** @param {Given} given @param {number} born @returns {Omit<Shape, "batch"> | null} */
function shapeOf({ id, polygon, points = [] }, born) {
  const places = points.filter(isPlace);
  const whole = polygon && polygon.length > 1 && polygon.every(isPlace);
  const { ring, crossing } = whole ? displayed(polygon) : { ring: null, crossing: false };
  if (ring === null && places.length === 0) return null;
  return {
    id,
    ring,
    crossing,
    born,
    box: boxOf([...(ring ?? []), ...places]),
    alone: ring !== null && mayCross(ring),
    path: ring === null ? null : pathOf(areaOf(ring) < 0 ? ring.toReversed() : ring),
    points: Float32Array.from(places.flatMap(([lat, lon]) => [lon, lat])),
    weight: (ring?.length ?? 0) * CORNER + places.length,
  };
}

/** @param {any} point */
function isPlace(point) {
  return Array.isArray(point) && Number.isFinite(point[0]) && Number.isFinite(point[1]);
}

/** @param {Ring} ring */
function pathOf(ring) {
  const path = new Path2D();
  for (const [lat, lon] of ring) path.lineTo(lon, lat);
  path.closePath();
  return path;
}

/** @param {Shape[]} shapes */
function drawnOf(shapes) {
  const rings = shapes.filter((shape) => shape.ring !== null);
  const box = boxOf(
    shapes.flatMap(({ box: [w, s, e, n] }) => /** @type {Ring} */ ([[s, w], [n, e]])),
  );
  return {
    box,
    fills: [
      together(rings.filter((shape) => !shape.alone)),
      ...rings.filter((shape) => shape.alone).flatMap((shape) => shape.path ?? []),
    ],
    lines: together(rings.filter((shape) => !shape.crossing)),
    across: together(rings.filter((shape) => shape.crossing)),
    clouds: shapes.filter((shape) => shape.points.length > 0),
  };
}

/** @param {Shape[]} shapes */
function together(shapes) {
  const path = new Path2D();
  for (const shape of shapes) if (shape.path !== null) path.addPath(shape.path);
  return path;
}

/** @param {Shape} shape @param {number} lat @param {number} lon @param {number} reach */
function touches({ box: [west, south, east, north], ring, points }, lat, lon, reach) {
  if (lat < south - reach || lat > north + reach) return false;
  const first = Math.ceil((west - reach - lon) / 360);
  const last = Math.floor((east + reach - lon) / 360);
  for (let turn = first; turn <= last; turn += 1) {
    const there = lon + turn * 360;
    if (ring !== null && inside(ring, lat, there)) return true;
    if (ring !== null && nearEdge(ring, lat, there, reach)) return true;
    if (nearPoint(points, lat, there, reach)) return true;
  }
  return false;
}

/** @param {Float32Array} points @param {number} lat @param {number} lon @param {number} reach */
function nearPoint(points, lat, lon, reach) {
  for (let i = 0; i < points.length; i += 2) {
    if (Math.hypot(points[i] - lon, points[i + 1] - lat) <= reach) return true;
  }
  return false;
}
