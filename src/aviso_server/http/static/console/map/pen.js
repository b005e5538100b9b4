// The reader's pen: drawing an area or a point, and dragging the corners of the one there is.
//
// Rules
// - A click sets a corner; a double click, Enter, or a click on the first corner finishes.
// - With keys the pen is in the middle of the map: the arrows move the world below it, Space sets a
//   corner, Enter finishes. Backspace takes a corner back and Escape cancels in any case.
// - A drag with Shift is a box. Without it, it is the map's.
// - What comes out is what the server can match; see rings.js.

import { Area } from "./area.js";
import { boxBetween, Drawing, pointOf, polygonOf } from "./drawing.js";
import { project, unproject } from "./projection.js";

/** Pixels around a corner in which it is hit: a finger covers more. */
const REACH = { mouse: 10, touch: 22 };

/** @import { Drawn } from "./drawing.js" */
/** @import { Drag } from "./gestures.js" */
/** @typedef {{changed(): void, ended(): void, drawn(drawn: Drawn): void,
 *  message(text: string): void}} Told  `ended` comes before `drawn`, and also without it */

export class Pen {
  /** @type {Area | null} */
  area = null;
  /** @type {Drawing | null} */
  drawing = null;
  #camera;
  #told;

  /** @param {import("./camera.js").Camera} camera @param {Told} told */
  constructor(camera, told) {
    this.#camera = camera;
    this.#told = told;
  }

  /** @param {"polygon" | "point"} kind */
  begin(kind) {
    this.drawing = new Drawing(kind);
  }

  cancel() {
    this.drawing = null;
    this.#told.ended();
  }

  /** @param {Drawn | null} given */
  setArea(given) {
    this.area = given === null ? null : new Area(given);
    this.#told.changed();
  }

  /** Where the next corner would be, if anybody knows. @param {[number, number] | null} place */
  point(place) {
    if (this.drawing === null) return;
    this.drawing.next = place;
    this.#told.changed();
  }

  /** Whether a pixel is on a corner that can be dragged. @param {number} x @param {number} y */
  holds(x, y) {
    return this.drawing === null && this.#handleAt(x, y, false) !== null;
  }

  /** A press that may become a drag of ours.
   *  @param {number} x @param {number} y @param {{shift: boolean, touch: boolean}} how
   *  @returns {Drag | null} */
  press(x, y, { shift, touch }) {
    const { area, drawing } = this;
    if (drawing !== null) {
      return drawing.kind === "polygon" && shift ? this.#dragBox(drawing, x, y) : null;
    }
    const handle = this.#handleAt(x, y, touch);
    return handle === null || area === null ? null : this.#dragCorner(area, handle);
  }

  /** A click while drawing.
   *  @param {number} x @param {number} y @param {{double: boolean, touch: boolean}} how */
  tap(x, y, { double, touch }) {
    if (this.drawing === null) return;
    const { kind, corners } = this.drawing;
    const place = this.#place(x, y);
    const first = corners.length > 2 ? project(this.#camera.shown, ...corners[0]) : [NaN, NaN];
    const onFirst = Math.hypot(first[0] - x, first[1] - y) <= (touch ? REACH.touch : REACH.mouse);
    if (kind === "point") this.#take(pointOf(place, this.#scale));
    // The first click of a double click has set the last corner.
    else if (onFirst || (double && corners.length > 2)) this.finish();
    else if (!double) this.drawing.add(place);
    this.#told.changed();
  }

  /** A key while drawing; false if it means nothing here. @param {string} key */
  key(key) {
    if (this.drawing === null) return false;
    const { lat, lon } = this.#camera.shown;
    const point = this.drawing.kind === "point";
    if (key === "Escape") this.cancel();
    else if (key === "Backspace") this.back();
    else if (point && [" ", "Enter"].includes(key)) this.#take(pointOf([lat, lon], this.#scale));
    else if (key === " ") this.drawing.add([lat, lon]);
    else if (key === "Enter") this.finish();
    else return false;
    this.#told.changed();
    return true;
  }

  finish() {
    if (this.drawing !== null) this.#takePolygon(this.drawing.corners);
  }

  back() {
    this.drawing?.back();
    this.#told.changed();
  }

  get #scale() {
    return this.#camera.shown.scale;
  }

  /** @param {number} x @param {number} y */
  #place(x, y) {
    return unproject(this.#camera.shown, x, y);
  }

  /** @param {number} x @param {number} y @param {boolean} touch */
  #handleAt(x, y, touch) {
    if (this.area === null) return null;
    return this.area.handleAt(this.#camera.shown, x, y, touch ? REACH.touch : REACH.mouse);
  }

  /** @param {Drawing} drawing @param {number} x @param {number} y @returns {Drag} */
  #dragBox(drawing, x, y) {
    const start = this.#place(x, y);
    drawing.boxed = start;
    const cancel = () => {
      drawing.boxed = null;
      this.#told.changed();
    };
    /** @type {Drag["end"]} */
    const end = (px, py) => {
      const corners = boxBetween(start, this.#place(px, py));
      cancel();
      this.#takePolygon(corners);
    };
    return { move: (px, py) => this.point(this.#place(px, py)), end, cancel };
  }

  /** @param {Area} area @param {{index: number, turn: number}} handle @returns {Drag} */
  #dragCorner(area, handle) {
    const before = area.given;
    /** @type {Drag["move"]} */
    const move = (px, py) => {
      area.move(handle, this.#place(px, py));
      this.#told.changed();
    };
    /** @type {Drag["end"]} */
    const end = (px, py) => {
      move(px, py);
      const taken = area.kind === "polygon"
        ? this.#takePolygon(area.corners)
        : this.#take(pointOf(area.corners[0], this.#scale));
      // Whoever was told may have set another area by now.
      if (this.area === area) this.setArea(taken ?? before);
    };
    return { move, end, cancel: () => this.setArea(before) };
  }

  /** @param {[number, number][]} corners */
  #takePolygon(corners) {
    const { drawn, message } = polygonOf(corners, this.#scale);
    if (message !== null) this.#told.message(message);
    return drawn === null ? null : this.#take(drawn);
  }

  /** @param {Drawn} drawn */
  #take(drawn) {
    if (this.drawing !== null) this.cancel();
    this.#told.drawn(drawn);
    return drawn;
  }
}
