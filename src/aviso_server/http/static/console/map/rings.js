// Rings and what the map asks about them. Pure.
//
// Rules
// - A ring is a list of [latitude, longitude] whose last point equals its first.
// - For the server a ring lies on the plane of degrees and never goes around the back: an edge from
//   170 to -170 crosses Greenwich. Producers often mean the short way, so `displayed` shows it
//   that way and says so; what leaves the map through `finished` never crosses 180 degrees.
// - Interior is by non-zero winding, as on the server. Here doubles are good enough: it is only for
//   clicks.

/** @typedef {[number, number]} Place latitude, longitude */
/** @typedef {Place[]} Ring */

/** A shape is a sliver when it is this many times taller than wide. */
const SLIVER = 20;
/** Above this many corners nobody looks for crossings, which takes every pair of edges. */
const LOOKED_AT = 200;

/** The ring with longitudes that run on: no edge is longer than 180 degrees.
 *  @param {Ring} ring @returns {Ring} */
export function unwrapped(ring) {
  let last = ring[0]?.[1] ?? 0;
  return ring.map(([lat, lon]) => {
    last = lon - Math.round((lon - last) / 360) * 360;
    return [lat, last];
  });
}

/** The ring as it is shown, and whether that is across the antimeridian, unlike how it is matched.
 *
 *  A ring around a pole has no short way, and one whose short way is a mere sliver was meant to
 *  span the world (-180 to 180, or the cells of a global grid).
 *  @param {Ring} ring @returns {{ring: Ring, crossing: boolean}} */
export function displayed(ring) {
  if (!ring.some(([, lon], i) => i > 0 && Math.abs(lon - ring[i - 1][1]) > 180)) {
    return { ring, crossing: false };
  }
  const short = unwrapped(ring);
  const [west, south, east, north] = boxOf(short);
  const around = short[short.length - 1][1] !== short[0][1];
  if (around || (east - west) * SLIVER < north - south) return { ring, crossing: false };
  return { ring: short, crossing: true };
}

/** @param {[number, number][]} points @returns {import("./projection.js").Box} */
export function boxOf(points) {
  let [west, south, east, north] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [lat, lon] of points) {
    if (lon < west) west = lon;
    if (lon > east) east = lon;
    if (lat < south) south = lat;
    if (lat > north) north = lat;
  }
  return [west, south, east, north];
}

/** Square degrees; positive if the ring runs counterclockwise. @param {Ring} ring */
export function areaOf(ring) {
  let twice = 0;
  for (let i = 0; i < ring.length; i += 1) {
    const [a, b] = [ring[i], ring[(i + 1) % ring.length]];
    twice += a[1] * b[0] - b[1] * a[0];
  }
  return twice / 2;
}

/** Whether a place is inside, by non-zero winding.
 *  @param {Ring} ring @param {number} lat @param {number} lon */
export function inside(ring, lat, lon) {
  let winding = 0;
  for (let i = 1; i < ring.length; i += 1) {
    const [a, b] = [ring[i - 1], ring[i]];
    if (a[0] <= lat === b[0] <= lat) continue;
    const left = side(a, b, [lat, lon]);
    if (a[0] <= lat && left > 0) winding += 1;
    else if (a[0] > lat && left < 0) winding -= 1;
  }
  return winding !== 0;
}

/** Whether a place is within so many degrees of the ring's edges.
 *  @param {Ring} ring @param {number} lat @param {number} lon @param {number} reach */
export function nearEdge(ring, lat, lon, reach) {
  return ring.some((b, i) => i > 0 && distance(ring[i - 1], b, lat, lon) <= reach);
}

/** @param {Place} a @param {Place} b @param {number} lat @param {number} lon */
function distance(a, b, lat, lon) {
  const [up, east] = [b[0] - a[0], b[1] - a[1]];
  const length = up * up + east * east;
  const along = length > 0 ? ((lat - a[0]) * up + (lon - a[1]) * east) / length : 0;
  const t = Math.min(Math.max(along, 0), 1);
  return Math.hypot(lat - a[0] - t * up, lon - a[1] - t * east);
}

/** Positive if c is left of the way from a to b.
 *  @param {Place} a @param {Place} b @param {Place} c */
function side(a, b, c) {
  return (b[1] - a[1]) * (c[0] - a[0]) - (b[0] - a[0]) * (c[1] - a[1]);
}

/** Whether two edges that are not neighbours cross, or nobody knows since there are too many.
 *  @param {Ring} ring */
export function mayCross(ring) {
  const edges = ring.length - 1;
  if (edges > LOOKED_AT) return true;
  for (let i = 0; i < edges; i += 1) {
    for (let j = i + 2; j < edges; j += 1) {
      const [a, b, c, d] = [ring[i], ring[i + 1], ring[j], ring[j + 1]];
      if (side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0) return true;
    }
  }
  return false;
}

/** What the server can use of drawn corners, whose longitudes may run on beyond 180 degrees.
 *
 *  Closed, rounded, within the world, without repeated corners; of a ring across 180 degrees the
 *  side with more of it. Null if that leaves fewer than three corners.
 *  @param {[number, number][]} corners @param {number} decimals
 *  @returns {{ring: Ring | null, cut: boolean}} */
export function finished(corners, decimals) {
  /** @type {Ring} */
  const level = corners.map(([lat, lon]) => [Math.min(Math.max(lat, -90), 90), lon]);
  const { points, cut } = largestPart(level);
  /** @type {Ring} */
  const ring = [];
  for (const [lat, lon] of points) {
    /** @type {[number, number]} */
    const corner = [rounded(lat, decimals), rounded(lon, decimals)];
    if (ring.length === 0 || !same(corner, ring[ring.length - 1])) ring.push(corner);
  }
  while (ring.length > 1 && same(ring[0], ring[ring.length - 1])) ring.pop();
  if (ring.length < 3) return { ring: null, cut };
  ring.push([...ring[0]]);
  return { ring, cut };
}

/** A drawn point as the server takes it.
 *  @param {number} lat @param {number} lon @param {number} decimals @returns {[number, number]} */
export function finishedPoint(lat, lon, decimals) {
  const turn = Math.round(lon / 360) * 360;
  return [rounded(Math.min(Math.max(lat, -90), 90), decimals), rounded(lon - turn, decimals)];
}

/** Decimals worth keeping where a degree has so many pixels: a tenth of a pixel, 2 to 4.
 *  @param {number} scale */
export function decimalsAt(scale) {
  return Math.min(Math.max(Math.ceil(Math.log10(scale)) + 1, 2), 4);
}

/** Of the parts in each world the largest, moved to [-180, 180]. @param {Ring} corners */
function largestPart(corners) {
  const [west, , east] = boxOf(corners);
  const first = Math.ceil((west - 180) / 360);
  const last = Math.floor((east + 180) / 360);
  /** @type {{points: Ring, size: number}} */
  let best = { points: [], size: -1 };
  let parts = 0;
  for (let turn = first; turn <= last; turn += 1) {
    /** @type {Ring} */
    const moved = corners.map(([lat, lon]) => [lat, lon - turn * 360]);
    const points = halved(halved(moved, -180, 1), 180, -1);
    const size = Math.abs(areaOf(points));
    if (points.length > 0 && size > 0) parts += 1;
    if (points.length > 0 && size > best.size) best = { points, size };
  }
  return { points: best.points, cut: parts > 1 };
}

/** The part of a ring on one side of a meridian: east of it (1) or west (-1).
 *  @param {Ring} points @param {number} meridian @param {1 | -1} sign */
function halved(points, meridian, sign) {
  /** @type {Ring} */
  const kept = [];
  points.forEach((b, i) => {
    const a = points[(i || points.length) - 1];
    const [aIn, bIn] = [(a[1] - meridian) * sign >= 0, (b[1] - meridian) * sign >= 0];
    if (aIn !== bIn) {
      const t = (meridian - a[1]) / (b[1] - a[1]);
      kept.push([a[0] + t * (b[0] - a[0]), meridian]);
    }
    if (bIn) kept.push(b);
  });
  return kept;
}

/** @param {number} value @param {number} decimals */
function rounded(value, decimals) {
  // Adding zero turns -0 into 0.
  return Number(value.toFixed(decimals)) + 0;
}

/** @param {Place} a @param {Place} b */
function same(a, b) {
  return a[0] === b[0] && a[1] === b[1];
}
