// Points of clouds, drawn fast. A few are put on the map as small pictures of a dot; many are first
// set down pixel by pixel in one large picture, which costs the same however many there are. Places
// that fall on the same few pixels are drawn once.

import { turns } from "./projection.js";

/** @import { Ground } from "./brush.js" */
/** @import { Shape } from "./shapes.js" */
/** @typedef {ReturnType<typeof dot>} Picture */

/** From so many points on, a dot stands for more of the screen. */
const MANY = 3000;
const RADIUS = 2.6;
const MARKED = 4;
/** Device pixels that a dot may reach over the edge of the map. */
const MARGIN = 16;

export class Dots {
  /** @type {Map<string, Picture>} */
  #pictures = new Map();
  #taken = new Uint8Array(0);
  /** @type {Sheet | null} */
  #sheet = null;

  /** Draw clouds in one colour.
   *  @param {CanvasRenderingContext2D} context @param {Ground} scene @param {Shape[]} clouds
   *  @param {string} colour @param {boolean} marked */
  draw(context, scene, clouds, colour, marked = false) {
    if (clouds.length === 0) return;
    const { width, height } = context.canvas;
    const picture = this.#picture(colour, scene, marked ? MARKED : RADIUS);
    const many = countOf(clouds) > MANY;
    // The side of the square of device pixels that share a dot, as a power of two.
    const side = many ? 2 : 1;
    const columns = (width >> side) + 1;
    const taken = this.#empty(columns * ((height >> side) + 1));
    const half = picture.size / 2;
    const sheet = many ? this.#sheetOf(width, height) : null;
    context.setTransform(1, 0, 0, 1, 0, 0);
    eachPixel(scene, clouds, (x, y) => {
      if (x < 0 || y < 0 || x >= width || y >= height) return;
      const cell = (y >> side) * columns + (x >> side);
      if (taken[cell] === 1) return;
      taken[cell] = 1;
      const left = Math.round(x - half);
      const top = Math.round(y - half);
      if (sheet === null) context.drawImage(picture.canvas, left, top);
      else sheet.put(picture, left, top);
    });
    if (sheet !== null) context.drawImage(sheet.finished(), 0, 0);
  }

  /** @param {number} width @param {number} height */
  #sheetOf(width, height) {
    const fits = this.#sheet?.width === width && this.#sheet.height === height;
    this.#sheet = fits && this.#sheet ? this.#sheet : new Sheet(width, height);
    return this.#sheet.emptied();
  }

  /** @param {number} size */
  #empty(size) {
    if (this.#taken.length !== size) this.#taken = new Uint8Array(size);
    else this.#taken.fill(0);
    return this.#taken;
  }

  /** @param {string} colour @param {Ground} ground @param {number} radius */
  #picture(colour, { ratio, colours }, radius) {
    const key = `${colour} ${colours.land} ${ratio} ${radius}`;
    // A theme has few colours; whoever changes it often starts anew.
    if (this.#pictures.size > 20) this.#pictures.clear();
    const known = this.#pictures.get(key) ?? dot(colour, colours.land, radius * ratio, ratio);
    this.#pictures.set(key, known);
    return known;
  }
}

/** A picture as large as the map, made of pixels and put on it at once. */
class Sheet {
  #data;
  #pixels;
  #context;

  /** @param {number} width @param {number} height */
  constructor(width, height) {
    this.width = width;
    this.height = height;
    // Dots reach over the edges, and nobody looks for those.
    this.#data = new ImageData(width + 2 * MARGIN, height + 2 * MARGIN);
    this.#pixels = new Uint32Array(this.#data.data.buffer);
    this.#context = contextOf(new OffscreenCanvas(width, height));
  }

  emptied() {
    this.#pixels.fill(0);
    return this;
  }

  /** A dot over what is there. @param {Picture} picture @param {number} left @param {number} top */
  put({ pixels, size }, left, top) {
    const sheet = this.#pixels;
    const wide = this.#data.width;
    let from = 0;
    for (let y = 0; y < size; y += 1) {
      let at = (top + MARGIN + y) * wide + left + MARGIN;
      for (let x = 0; x < size; x += 1, at += 1, from += 1) {
        const pixel = pixels[from];
        const alpha = pixel >>> 24;
        if (alpha === 0) continue;
        sheet[at] = alpha === 255 || sheet[at] === 0 ? pixel : over(sheet[at], pixel, alpha);
      }
    }
  }

  finished() {
    this.#context.putImageData(this.#data, -MARGIN, -MARGIN);
    return this.#context.canvas;
  }
}

/** A soft pixel over another: two channels at a time, each with eight bits of room above it.
 *  @param {number} below @param {number} pixel @param {number} alpha */
function over(below, pixel, alpha) {
  const odd = below & 0xff00ff;
  const even = (below >>> 8) & 0xff00ff;
  const full = pixel | 0xff000000;
  const first = odd + (Math.imul((full & 0xff00ff) - odd, alpha) >>> 8);
  const second = even + (Math.imul(((full >>> 8) & 0xff00ff) - even, alpha) >>> 8);
  return (first & 0xff00ff) | ((second & 0xff00ff) << 8);
}

/** @param {Shape[]} clouds */
function countOf(clouds) {
  return clouds.reduce((sum, { points }) => sum + points.length / 2, 0);
}

/** @param {Ground} ground @param {Shape[]} clouds @param {(x: number, y: number) => void} visit */
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

/** A disc with a thin rim that sets it off from the ground; as a picture, and as its pixels.
 *  @param {string} colour @param {string} rim @param {number} radius @param {number} edge */
function dot(colour, rim, radius, edge) {
  const size = Math.ceil(radius + edge) * 2;
  const canvas = new OffscreenCanvas(size, size);
  const context = contextOf(canvas, { willReadFrequently: true });
  context.fillStyle = rim;
  context.arc(size / 2, size / 2, radius + edge / 2, 0, 2 * Math.PI);
  context.fill();
  context.beginPath();
  context.fillStyle = colour;
  context.arc(size / 2, size / 2, radius, 0, 2 * Math.PI);
  context.fill();
  const pixels = new Uint32Array(context.getImageData(0, 0, size, size).data.buffer);
  return { canvas, pixels, size };
}

/** @param {OffscreenCanvas} canvas @param {CanvasRenderingContext2DSettings} [settings] */
function contextOf(canvas, settings) {
  return /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d", settings));
}
