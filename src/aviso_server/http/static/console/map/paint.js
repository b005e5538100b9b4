// One picture of the map, from what is known at a moment. Nothing here remembers anything, and
// nothing here decides anything but looks.

import { crisp, dashed, eachTurn, inPixels } from "./brush.js";
import { paintGround, paintNames } from "./ground.js";
import { project, turns } from "./projection.js";

const HANDLE = 5;
const HALO = 13;
/** Up to so many shapes get a fuller outline; a line of one device pixel is drawn much faster. */
const FEW = 150;
const OUTLINE = 1.2;
/** Widths and strengths of the strokes that make something new glow. */
const GLOW = [[9, 0.18], [5, 0.3], [1.6, 1]];

/** @import { Place } from "./rings.js" */
/** @import { Shape } from "./shapes.js" */
/** @typedef {import("./brush.js").Ground & {
 *  world: import("./world.js").World | null,
 *  shapes: import("./shapes.js").Shapes, dots: import("./dots.js").Dots,
 *  glowing: {shape: Shape, strength: number}[],
 *  hovered: Shape | undefined, highlighted: Shape | undefined,
 *  area: import("./area.js").Area | null, drawing: import("./drawing.js").Drawing | null,
 *  cross: boolean}} Scene */

/** The ground and the shapes.
 *  @param {CanvasRenderingContext2D} context of an empty canvas @param {Scene} scene */
export function paintBelow(context, scene) {
  context.lineJoin = "round";
  paintGround(context, scene, scene.world);
  paintShapes(context, scene);
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene
 *  @param {HTMLCanvasElement} below what `paintBelow` has painted, as large as this */
export function paint(context, scene, below) {
  const { colours } = scene;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  context.lineJoin = "round";
  context.drawImage(below, 0, 0);
  paintGlow(context, scene);
  if (scene.hovered) paintMarked(context, scene, scene.hovered, colours.shape, 2);
  if (scene.highlighted) paintMarked(context, scene, scene.highlighted, colours.hot, 3);
  if (scene.area) paintArea(context, scene, scene.area);
  if (scene.drawing?.kind === "polygon") paintDrawing(context, scene, scene.drawing);
  paintNames(context, scene);
  if (scene.cross) paintCross(context, scene);
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene */
function paintShapes(context, scene) {
  const { colours, shapes, dots } = scene;
  const width = shapes.shown > FEW ? 1 / scene.ratio : OUTLINE;
  for (const { box, fills, lines, across, clouds } of shapes.drawn()) {
    eachTurn(context, scene, box, (scale) => {
      context.fillStyle = colours.shapeFill;
      for (const path of fills) context.fill(path);
      context.strokeStyle = colours.shape;
      context.lineWidth = width / scale;
      context.stroke(lines);
      dashed(context, true, scale);
      context.stroke(across);
      dashed(context, false);
    });
    dots.draw(context, scene, clouds, colours.shape);
  }
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene */
function paintGlow(context, scene) {
  const { colours, glowing, dots } = scene;
  context.strokeStyle = colours.hot;
  for (const { shape, strength } of glowing) {
    eachTurn(context, scene, shape.box, (scale) => {
      for (const [width, alpha] of GLOW) {
        if (shape.path === null) return;
        context.globalAlpha = strength * alpha;
        context.lineWidth = width / scale;
        context.stroke(shape.path);
      }
    });
    context.globalAlpha = strength;
    dots.draw(context, scene, [shape], colours.hot);
    context.globalAlpha = 1;
  }
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene @param {Shape} shape
 *  @param {string} colour @param {number} width */
function paintMarked(context, scene, shape, colour, width) {
  eachTurn(context, scene, shape.box, (scale) => {
    if (shape.path === null) return;
    context.globalAlpha = 0.8;
    context.strokeStyle = scene.colours.land;
    context.lineWidth = (width + 2.5) / scale;
    context.stroke(shape.path);
    context.globalAlpha = 1;
    context.strokeStyle = colour;
    context.lineWidth = width / scale;
    dashed(context, shape.crossing, scale);
    context.stroke(shape.path);
    dashed(context, false);
  });
  scene.dots.draw(context, scene, [shape], colour, true);
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene
 *  @param {import("./area.js").Area} area */
function paintArea(context, scene, area) {
  if (area.kind === "polygon") {
    eachTurn(context, scene, area.box, (scale) => {
      trace(context, area.corners, (lat, lon) => [lon, lat]);
      context.closePath();
      finish(context, scene, scale);
    });
  }
  for (const [lat, lon] of area.handles) {
    for (const turn of turns(scene.view, lon, lon)) {
      if (area.kind === "point") disc(context, scene, [lat, lon + turn], HALO, "areaFill");
      handle(context, scene, [lat, lon + turn], area.kind === "point");
    }
  }
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene
 *  @param {import("./drawing.js").Drawing} drawing */
function paintDrawing(context, scene, drawing) {
  inPixels(context, scene);
  trace(context, drawing.outline, (lat, lon) => project(scene.view, lat, lon));
  if (drawing.boxed !== null) context.closePath();
  finish(context, scene, 1);
  // The first corner is full, since a click on it closes the ring.
  drawing.corners.forEach((place, i) => handle(context, scene, place, i === 0));
}

/** @param {CanvasRenderingContext2D} context @param {Place[]} places
 *  @param {(lat: number, lon: number) => [number, number]} where */
function trace(context, places, where) {
  context.beginPath();
  for (const [lat, lon] of places) context.lineTo(...where(lat, lon));
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene @param {number} scale */
function finish(context, { colours }, scale) {
  context.fillStyle = colours.areaFill;
  context.fill();
  context.strokeStyle = colours.area;
  context.lineWidth = 1.8 / scale;
  dashed(context, true, scale);
  context.stroke();
  dashed(context, false);
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene @param {Place} place
 *  @param {number} radius @param {"area" | "areaFill" | "land"} colour */
function disc(context, scene, place, radius, colour) {
  const [x, y] = project(scene.view, place[0], place[1]);
  inPixels(context, scene);
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = scene.colours[colour];
  context.fill();
}

/** @param {CanvasRenderingContext2D} context @param {Scene} scene @param {Place} place
 *  @param {boolean} full */
function handle(context, scene, place, full) {
  disc(context, scene, place, HANDLE, full ? "area" : "land");
  context.strokeStyle = scene.colours.area;
  context.lineWidth = 2;
  context.stroke();
}

/** Where the keyboard points. @param {CanvasRenderingContext2D} context @param {Scene} scene */
function paintCross(context, scene) {
  const [x, y] = [crisp(scene.view.width / 2), crisp(scene.view.height / 2)];
  inPixels(context, scene);
  const strokes = [{ colour: scene.colours.land, width: 4 }, {
    colour: scene.colours.area,
    width: 1.5,
  }];
  for (const { colour, width } of strokes) {
    context.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(x + dx * 4, y + dy * 4);
      context.lineTo(x + dx * 14, y + dy * 14);
    }
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }
}
