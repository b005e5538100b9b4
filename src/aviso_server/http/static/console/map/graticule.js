// The lines of round degrees and their names. Pure.

/** Degrees between the lines, from far to near. */
const STEPS = [90, 60, 30, 10, 5, 1];
/** Pixels that two lines must be apart at least, so that their names do not touch. */
const APART = 64;

/** Degrees between the lines where a degree has so many pixels. @param {number} scale */
export function stepAt(scale) {
  return STEPS.findLast((step) => step * scale >= APART) ?? STEPS[0];
}

/** The multiples of a step in a range, both ends included.
 *  @param {number} low @param {number} high @param {number} step @returns {number[]} */
export function multiples(low, high, step) {
  const first = Math.ceil(low / step);
  const length = Math.max(0, Math.floor(high / step) - first + 1);
  return Array.from({ length }, (_, i) => (first + i) * step);
}

/** @param {number} lat @returns {string} as in "30°N" */
export function nameOfLatitude(lat) {
  return `${Math.abs(lat)}°${lat > 0 ? "N" : lat < 0 ? "S" : ""}`;
}

/** @param {number} lon in any turn @returns {string} as in "30°W" */
export function nameOfLongitude(lon) {
  const folded = lon - Math.round(lon / 360) * 360;
  const half = Math.abs(folded) === 180 || folded === 0;
  return `${Math.abs(folded)}°${half ? "" : folded > 0 ? "E" : "W"}`;
}
