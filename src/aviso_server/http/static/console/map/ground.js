// The ground of the map: sea, land, borders, and the lines of round degrees with their names.

import { crisp, eachTurn, inPixels } from "./brush.js";
import { multiples, nameOfLatitude, nameOfLongitude, stepAt } from "./graticule.js";
import { project, unproject } from "./projection.js";

/** @import { Ground } from "./brush.js" */
/** @import { View } from "./projection.js" */
/** @import { Piece } from "./world.js" */

const FONT = "10.5px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const HAIR = 0.8;
/** Pixels at the edges where no name fits, or where another one is. */
const [SIDE, CORNER, BASE] = [24, 48, 7];

/** Everything below the shapes.
 *  @param {CanvasRenderingContext2D} context @param {import("./brush.js").Ground} ground
 *  @param {import("./world.js").World | null} world */
export function paintGround(context, ground, world) {
  const { view, colours } = ground;
  const [, top] = project(view, 90, 0);
  const [, bottom] = project(view, -90, 0);
  inPixels(context, ground);
  context.fillStyle = colours.sea;
  context.fillRect(0, top, view.width, bottom - top);
  const { land, water, borders } = world?.at(view.scale) ?? { land: [], water: [], borders: [] };
  fill(context, ground, land, colours.land);
  fill(context, ground, water, colours.sea);
  stroke(context, ground, borders, colours.border);
  paintGrid(context, ground, Math.max(top, 0), Math.min(bottom, view.height));
  stroke(context, ground, [...land, ...water], colours.coast);
}

/** @param {CanvasRenderingContext2D} context @param {Ground} ground @param {Piece[]} pieces
 *  @param {string} colour */
function fill(context, ground, pieces, colour) {
  context.fillStyle = colour;
  for (const { box, area } of pieces) eachTurn(context, ground, box, () => context.fill(area));
}

/** @param {CanvasRenderingContext2D} context @param {Ground} ground @param {Piece[]} pieces
 *  @param {string} colour */
function stroke(context, ground, pieces, colour) {
  context.strokeStyle = colour;
  for (const { box, line } of pieces) {
    eachTurn(context, ground, box, (scale) => {
      context.lineWidth = HAIR / scale;
      context.stroke(line);
    });
  }
}

/** @param {View} view */
function gridOf(view) {
  const step = stepAt(view.scale);
  const [north, west] = unproject(view, 0, 0);
  const [south, east] = unproject(view, view.width, view.height);
  const lats = multiples(Math.max(south, -90), Math.min(north, 90), step);
  return { lats, lons: multiples(west, east, step) };
}

/** @param {CanvasRenderingContext2D} context @param {Ground} ground @param {number} top
 *  @param {number} bottom */
function paintGrid(context, ground, top, bottom) {
  const { view, colours } = ground;
  const { lats, lons } = gridOf(view);
  inPixels(context, ground);
  context.beginPath();
  for (const lat of lats) {
    const y = crisp(project(view, lat, 0)[1]);
    context.moveTo(0, y);
    context.lineTo(view.width, y);
  }
  for (const lon of lons) {
    const x = crisp(project(view, 0, lon)[0]);
    context.moveTo(x, top);
    context.lineTo(x, bottom);
  }
  context.strokeStyle = colours.grid;
  context.lineWidth = 1;
  context.stroke();
}

/** The names of the lines, above everything.
 *  @param {CanvasRenderingContext2D} context @param {import("./brush.js").Ground} ground */
export function paintNames(context, ground) {
  const { view } = ground;
  const { lats, lons } = gridOf(view);
  const bottom = Math.min(view.height, project(view, -90, 0)[1]);
  inPixels(context, ground);
  context.font = FONT;
  context.textAlign = "center";
  context.textBaseline = "alphabetic";
  for (const lon of lons) {
    const [x] = project(view, 0, lon);
    const fits = x > CORNER && x < view.width - SIDE;
    if (fits) name(context, ground, nameOfLongitude(lon), x, bottom - BASE);
  }
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const lat of lats) {
    const [, y] = project(view, lat, 0);
    const fits = y > SIDE / 2 && y < bottom - SIDE && lat < 90;
    if (fits) name(context, ground, nameOfLatitude(lat), BASE, y);
  }
}

/** @param {CanvasRenderingContext2D} context @param {Ground} ground @param {string} text
 *  @param {number} x @param {number} y */
function name(context, { colours }, text, x, y) {
  context.globalAlpha = 0.7;
  context.lineWidth = 3;
  context.strokeStyle = colours.sea;
  context.strokeText(text, x, y);
  context.globalAlpha = 1;
  context.fillStyle = colours.text;
  context.fillText(text, x, y);
}
