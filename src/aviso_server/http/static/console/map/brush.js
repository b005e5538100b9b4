// What all painting shares: drawing in pixels or in degrees, dashes, and the turns of the world.
//
// Outlines are kept in degrees and drawn with a transform, longitude to the right and latitude up;
// widths in pixels are divided by the scale for that. What has a fixed size is drawn in pixels.

import { inSight, project, turns } from "./projection.js";

const DASH = [5, 4];
/** A sharper screen than this is not worth the pixels. */
const SHARPEST = 2;

/** @typedef {{view: import("./projection.js").View, ratio: number,
 *  colours: import("./colours.js").Colours}} Ground  `ratio` is device pixels per pixel */

/** Give a canvas as many pixels as the screen has there; how many for each.
 *  @param {HTMLCanvasElement} canvas @param {import("./projection.js").View} view */
export function sharpen(canvas, { width, height }) {
  const ratio = Math.min(devicePixelRatio, SHARPEST);
  const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== tall) canvas.height = tall;
  return ratio;
}

/** @param {CanvasRenderingContext2D} context @param {Ground} ground */
export function inPixels(context, { ratio }) {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
}

/** @param {CanvasRenderingContext2D} context @param {Ground} ground @param {number} turn */
function inDegrees(context, { view, ratio }, turn) {
  const scale = view.scale * ratio;
  const [x, y] = project(view, 0, turn);
  context.setTransform(scale, 0, 0, -scale, x * ratio, y * ratio);
}

/** Call `draw` with the scale, once for every turn of the world in which a box is in sight.
 *  @param {CanvasRenderingContext2D} context @param {Ground} ground
 *  @param {import("./projection.js").Box} box @param {(scale: number) => void} draw */
export function eachTurn(context, ground, box, draw) {
  for (const turn of turns(ground.view, box[0], box[2])) {
    if (!inSight(ground.view, box, turn)) continue;
    inDegrees(context, ground, turn);
    draw(ground.view.scale);
  }
}

/** Dashes from now on, or none.
 *  @param {CanvasRenderingContext2D} context @param {boolean} on @param {number} [scale] */
export function dashed(context, on, scale = 1) {
  context.setLineDash(on ? DASH.map((length) => length / scale) : []);
}

/** The middle of a pixel: a line of one pixel there is not smeared over two.
 *  @param {number} pixel */
export function crisp(pixel) {
  return Math.floor(pixel) + 0.5;
}
