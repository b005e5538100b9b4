// Where places are on the screen: plain degrees on a plane (plate carrée), which is how the server
// matches areas. Pure: a view is a value, and every move makes a new one.
//
// Rules
// - A view's longitude runs on without bounds when one pans around the world; it is never folded
//   back, so that what is being drawn stays in one piece. The world repeats every 360 degrees.
// - Latitude stops at the poles, and one can step back until both are in sight; the world is then
//   there more than once.
// - A box is [west, south, east, north] in degrees with west <= east; east may lie beyond 180.

/** @typedef {{lon: number, lat: number, scale: number, width: number, height: number}} View
 *  The centre in degrees, pixels per degree, and the size in pixels. */
/** @typedef {[number, number, number, number]} Box */

/** How much closer than the whole world one can get. */
export const MAX_ZOOM = 64;
/** How close fitting gets: a single point should still show where it is. */
const FIT_ZOOM = 16;
/** Pixels kept free around what is fitted, and the most of a side that may go to them. */
const PADDING = 36;
const PADDING_SHARE = 0.15;
/** The latitude in the middle when the whole world does not fit in height: less ice, more land. */
const MIDDLE = 14;

/** The world once around, Greenwich in the middle.
 *  @param {number} width @param {number} height @returns {View} */
export function whole(width, height) {
  return clamped({ lon: 0, lat: MIDDLE, scale: width / 360, width, height });
}

/** The nearest view within the rules above. @param {View} view @returns {View} */
export function clamped(view) {
  const around = view.width / 360;
  const least = Math.min(around, view.height / 180);
  const scale = Math.min(Math.max(view.scale, least), around * MAX_ZOOM);
  const reach = Math.max(0, 90 - view.height / 2 / scale);
  return { ...view, scale, lat: Math.min(Math.max(view.lat, -reach), reach) };
}

/** @param {View} view @param {number} lat @param {number} lon
 *  @returns {[number, number]} pixels from the upper left corner */
export function project(view, lat, lon) {
  return [
    view.width / 2 + (lon - view.lon) * view.scale,
    view.height / 2 - (lat - view.lat) * view.scale,
  ];
}

/** @param {View} view @param {number} x @param {number} y
 *  @returns {[number, number]} latitude, and longitude without bounds */
export function unproject(view, x, y) {
  return [
    view.lat - (y - view.height / 2) / view.scale,
    view.lon + (x - view.width / 2) / view.scale,
  ];
}

/** The view after dragging the world by pixels.
 *  @param {View} view @param {number} dx @param {number} dy @returns {View} */
export function panned(view, dx, dy) {
  const { scale } = view;
  return clamped({ ...view, lon: view.lon - dx / scale, lat: view.lat + dy / scale });
}

/** The view closer by a factor, with the place under a pixel kept there.
 *  @param {View} view @param {number} factor */
export function zoomed(view, factor, x = view.width / 2, y = view.height / 2) {
  const [lat, lon] = unproject(view, x, y);
  const closer = clamped({ ...view, scale: view.scale * factor });
  const [nowLat, nowLon] = unproject(closer, x, y);
  return clamped({ ...closer, lat: closer.lat + lat - nowLat, lon: closer.lon + lon - nowLon });
}

/** The same place at another size of the screen.
 *  @param {View} view @param {number} width @param {number} height @returns {View} */
export function resized(view, width, height) {
  const zoom = view.width > 0 ? view.scale / (view.width / 360) : 1;
  return clamped({ ...view, width, height, scale: (zoom * width) / 360 });
}

/** The turns (multiples of 360) that bring a span of longitudes into sight.
 *  @param {View} view @param {number} west @param {number} east */
export function turns(view, west, east) {
  const half = view.width / 2 / view.scale;
  const first = Math.ceil((view.lon - half - east) / 360);
  const last = Math.floor((view.lon + half - west) / 360);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * 360);
}

/** Whether a box, moved by a turn, is in sight.
 *  @param {View} view @param {Box} box @param {number} turn */
export function inSight(view, [west, south, east, north], turn) {
  const [wide, tall] = [view.width / 2 / view.scale, view.height / 2 / view.scale];
  return (
    west + turn <= view.lon + wide
    && east + turn >= view.lon - wide
    && south <= view.lat + tall
    && north >= view.lat - tall
  );
}

/** The view that shows all boxes, or the world if there are none.
 *  @param {View} view @param {Box[]} boxes @returns {View} */
export function fitted(view, boxes) {
  const turn = Math.round(view.lon / 360) * 360;
  const cover = covering(boxes);
  if (cover === null) return { ...whole(view.width, view.height), lon: turn };
  const [west, south, east, north] = cover;
  const scale = Math.min(
    room(view.width) / (east - west),
    room(view.height) / (north - south),
    (view.width / 360) * FIT_ZOOM,
  );
  const lon = (west + east) / 2;
  const near = lon + Math.round((view.lon - lon) / 360) * 360;
  return clamped({ ...view, scale, lon: near, lat: (south + north) / 2 });
}

/** @param {number} size */
function room(size) {
  return size - 2 * Math.min(PADDING, size * PADDING_SHARE);
}

/** The smallest box around all, over the antimeridian if that is shorter; null without any.
 *  @param {Box[]} boxes @returns {Box | null} */
export function covering(boxes) {
  if (boxes.length === 0) return null;
  const south = Math.min(...boxes.map((box) => box[1]));
  const north = Math.max(...boxes.map((box) => box[3]));
  const spans = boxes.map(([west, , east]) => {
    const start = folded(west);
    return [start, start + east - west];
  });
  spans.sort((a, b) => a[0] - b[0]);
  // The widest gap between the spans is what need not be shown; the cover begins behind it. The
  // spans of one turn earlier reach into this one.
  let reached = Math.max(...spans.map((span) => span[1])) - 360;
  let [west, gap] = [spans[0][0], 0];
  for (const [start, end] of spans) {
    if (start - reached > gap) [west, gap] = [start, start - reached];
    reached = Math.max(reached, end);
  }
  return [west, south, west + 360 - gap, north];
}

/** A longitude folded into [-180, 180). @param {number} lon */
export function folded(lon) {
  return lon - Math.floor((lon + 180) / 360) * 360;
}
