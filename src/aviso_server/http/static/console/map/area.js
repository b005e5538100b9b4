// The area of a filter on the map: a polygon whose corners can be dragged, or a point. It is shown
// on the plane of degrees, as the server takes it. Pure state.

import { project, turns } from "./projection.js";
import { boxOf } from "./rings.js";

/** Handles at more corners than this would hide the area. */
const HANDLES = 120;

export class Area {
  /** @type {[number, number][]} without the repeated last one */
  corners;

  /** @param {import("./drawing.js").Drawn} given */
  constructor(given) {
    this.given = given;
    this.kind = given.polygon ? "polygon" : "point";
    const places = given.polygon ? given.polygon.slice(0, -1) : given.point ? [given.point] : [];
    this.corners = places.map(([lat, lon]) => [lat, lon]);
  }

  get box() {
    return boxOf(this.corners);
  }

  /** The corners that can be dragged. */
  get handles() {
    return this.corners.length > HANDLES ? [] : this.corners;
  }

  /** The handle within so many pixels of a pixel, and in which turn of the world.
   *  @param {import("./projection.js").View} view @param {number} x @param {number} y
   *  @param {number} reach @returns {{index: number, turn: number} | null} */
  handleAt(view, x, y, reach) {
    for (const [index, [lat, lon]] of this.handles.entries()) {
      for (const turn of turns(view, lon, lon)) {
        const [hx, hy] = project(view, lat, lon + turn);
        if (Math.hypot(hx - x, hy - y) <= reach) return { index, turn };
      }
    }
    return null;
  }

  /** Put a corner elsewhere.
   *  @param {{index: number, turn: number}} handle @param {[number, number]} place */
  move({ index, turn }, [lat, lon]) {
    this.corners[index] = [Math.min(Math.max(lat, -90), 90), lon - turn];
  }
}
