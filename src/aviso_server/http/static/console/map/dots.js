// Points of clouds, drawn fast: a small picture of a dot is put at every place, and places that
// fall on the same few pixels are drawn once.

import { turns } from "./projection.js";

/** From so many points on, a dot stands for more of the screen. */
const MANY = 3000;
const RADIUS = 2.6;
const MARKED = 4;

export class Dots {
  #pictures = new Map();
  #taken = new Uint8Array(0);

  /** Draw clouds in one colour.
   *  @param {CanvasRenderingContext2D} context
   *  @param {{view: import("./projection.js").View, ratio: number, colours: object}} scene
   *  @param {import("./shapes.js").Shape[]} clouds
   *  @param {string} colour @param {boolean} marked */
  draw(context, scene, clouds, colour, marked = false) {
    if (clouds.length === 0) return;
    const { width, height } = context.canvas;
    const picture = this.#picture(colour, scene, marked ? MARKED : RADIUS);
    // The side of the square of device pixels that share a dot, as a power of two.
    const side = countOf(clouds) > MANY ? 2 : 1;
    const columns = (width >> side) + 1;
    const taken = this.#empty(columns * ((height >> side) + 1));
    const half = picture.width / 2;
    context.setTransform(1, 0, 0, 1, 0, 0);
    eachPixel(scene, clouds, (x, y) => {
      if (x < 0 || y < 0 || x >= width || y >= height) return;
      const cell = (y >> side) * columns + (x >> side);
      if (taken[cell] === 1) return;
      taken[cell] = 1;
      context.drawImage(picture, Math.round(x - half), Math.round(y - half));
    });
  }

  #empty(size) {
    if (this.#taken.length !== size) this.#taken = new Uint8Array(size);
    else this.#taken.fill(0);
    return this.#taken;
  }

  #picture(colour, { ratio, colours }, radius) {
    const key = `${colour} ${colours.land} ${ratio} ${radius}`;
    // A theme has few colours; whoever changes it often starts anew.
    if (this.#pictures.size > 20) this.#pictures.clear();
    if (!this.#pictures.has(key)) {
      this.#pictures.set(key, dot(colour, colours.land, radius * ratio, ratio));
    }
    return this.#pictures.get(key);
  }
}

function countOf(clouds) {
  return clouds.reduce((sum, { points }) => sum + points.length / 2, 0);
}

function eachPixel({ view, ratio }, clouds, visit) {
  const { scale } = view;
  for (const { points, box } of clouds) {
    for (const turn of turns(view, box[0], box[2])) {
      for (let i = 0; i < points.length; i += 2) {
        const x = (view.width / 2 + (points[i] + turn - view.lon) * scale) * ratio;
        const y = (view.height / 2 - (points[i + 1] - view.lat) * scale) * ratio;
        visit(x, y);
      }
    }
  }
}

/** A disc with a thin rim that sets it off from the ground. */
function dot(colour, rim, radius, edge) {
  const size = Math.ceil(radius + edge) * 2;
  const canvas = new OffscreenCanvas(size, size);
  const context = canvas.getContext("2d");
  context.fillStyle = rim;
  context.arc(size / 2, size / 2, radius + edge / 2, 0, 2 * Math.PI);
  context.fill();
  context.beginPath();
  context.fillStyle = colour;
  context.arc(size / 2, size / 2, radius, 0, 2 * Math.PI);
  context.fill();
  return canvas;
}
