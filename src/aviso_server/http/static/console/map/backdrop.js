// What lies below all that moves: the ground and the shapes. It is painted anew when it changes;
// every frame of a glow only puts the same picture down again. Where new shapes keep coming, they
// join it a few times a second; until then they are seen to glow.

import { sharpen } from "./brush.js";
import { paintBelow } from "./paint.js";

/** Milliseconds after which shapes that still glow join the others. */
const JOINED = 250;

/** @import { Scene } from "./paint.js" */

export class Backdrop {
  canvas = document.createElement("canvas");
  #context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
  /** @type {unknown[]} what it was painted from */
  #from = [];
  #painted = -Infinity;

  /**
   * Paint it anew if it has to be.
   * @param {Scene} scene
   * @param {number} now
   * @returns {boolean} whether it lacks something new
   */
  follow(scene, now) {
    const { view, ratio, colours, world, shapes, glowing } = scene;
    const from = [view, ratio, colours, world, shapes.version];
    const changed = from.findIndex((value, place) => value !== this.#from[place]);
    if (changed === -1) return false;
    const patient = changed === from.length - 1 && glowing.length > 0;
    if (patient && now - this.#painted < JOINED) return true;
    sharpen(this.canvas, view);
    this.#context.reset();
    paintBelow(this.#context, scene);
    this.#from = from;
    this.#painted = now;
    return false;
  }
}
