// The world map of the console: shapes of notifications, the area of a filter, and drawing one.
//
// Rules
// - Something changed: ask for a frame. Nothing is painted but in a frame, and none is painted
//   when nothing changed.
// - Places are latitude and longitude, in this order; see rings.js for rings across 180 degrees.
// - A click takes the newest shape below it; more clicks there take those below, one by one.

import { Backdrop } from "./backdrop.js";
import { sharpen } from "./brush.js";
import { Camera } from "./camera.js";
import { coloursOf } from "./colours.js";
import { Controls } from "./controls.js";
import { Dots } from "./dots.js";
import { Gestures } from "./gestures.js";
import { FADE, glowing } from "./glow.js";
import { paint } from "./paint.js";
import { Pen } from "./pen.js";
import { unproject } from "./projection.js";
import { Shapes } from "./shapes.js";
import { loadWorld } from "./world.js";

/** Pixels around the pointer that still count as a hit: a finger covers more. */
const REACH = { mouse: 5, touch: 14 };
/** Pixels that an arrow key moves the map, and with Shift. */
const ARROW = 60;
const FINE_ARROW = 6;
/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
/** Zoom of one press of a button or key. */
const PRESS = 2;
const NO_LAND = "The coastlines could not be loaded; the map works without them.";

/** @typedef {import("./drawing.js").Drawn} Drawn */

export class WorldMap {
  /** A shape was chosen. @type {(id: string) => void} */
  onpick = () => {};
  /** The pointer is over a shape, or over none. @type {(id: string | null) => void} */
  onhover = () => {};
  /** An area was drawn, or changed by dragging a corner. @type {(drawn: Drawn) => void} */
  ondrawn = () => {};
  /** The reader looks elsewhere now. */
  onmoved = () => {};
  /** Words for the reader. @type {(text: string) => void} */
  onmessage = () => {};

  #host;
  #controls;
  #camera;
  #pen;
  #context;
  #colours;
  #shapes = new Shapes();
  #dots = new Dots();
  /** @type {import("./world.js").World | null} */
  #world = null;
  /** @type {string | null} */
  #highlighted = null;
  /** @type {string | null} */
  #hovered = null;
  #picked = { id: "", x: 0, y: 0 };
  /** @type {"keys" | "touch" | "pointer"} what the reader uses */
  #by = matchMedia("(pointer: coarse)").matches ? "touch" : "pointer";
  #frame = 0;
  #backdrop = new Backdrop();
  /** Whether more than a glow has changed since the last picture, and when that was. */
  #changed = true;
  #painted = 0;
  #ended = new AbortController();
  #observer = new ResizeObserver(() => this.#resize());
  #calm = matchMedia("(prefers-reduced-motion: reduce)");

  /** @param {HTMLElement} host an empty element with a size; the map fills it and follows its size
   *  @param {{label: string, world: string}} options for screen readers; the address of the land */
  constructor(host, { label, world }) {
    this.#host = host;
    host.classList.add("world-map");
    this.#camera = new Camera(() => this.#calm.matches);
    this.#pen = new Pen(this.#camera, {
      changed: () => this.#ask(),
      ended: () => this.#guide(),
      drawn: (drawn) => this.ondrawn(drawn),
      message: (text) => this.onmessage(text),
    });
    this.#controls = new Controls(host, label, {
      closer: () => this.#closer(PRESS),
      farther: () => this.#closer(1 / PRESS),
      fit: () => this.fit(),
      finish: () => this.#pen.finish(),
      back: () => this.#pen.back(),
      cancel: () => this.#pen.cancel(),
    });
    const context = this.#controls.canvas.getContext("2d");
    this.#context = /** @type {CanvasRenderingContext2D} */ (context);
    this.#colours = coloursOf(host);
    this.#listen();
    this.#observer.observe(host);
    this.#load(world);
  }

  /** How many shapes are drawn: the newest. */
  get shown() {
    return this.#shapes.shown;
  }

  /** How many shapes were added and not removed. */
  get total() {
    return this.#shapes.total;
  }

  /** Add shapes, the newest last.
   *  @param {{id: string, polygon?: [number, number][], points?: [number, number][]}[]} shapes */
  add(shapes) {
    const now = performance.now();
    const glows = this.#glowing(now).length > 0;
    this.#shapes.add(shapes, now);
    // A glow goes on by itself, and takes what is new along.
    if (glows) this.#next();
    else this.#ask();
  }

  /** @param {Iterable<string>} ids */
  remove(ids) {
    this.#shapes.remove(ids);
    this.#ask();
  }

  clear() {
    this.#shapes.clear();
    this.#ask();
  }

  /** Mark one shape and bring it to the front, or none. @param {string | null} id */
  highlight(id) {
    this.#highlighted = id;
    this.#ask();
  }

  /** Show these shapes, or all with the filter's area, or the world. @param {string[]} [ids] */
  fit(ids) {
    const boxes = this.#shapes.boxes(ids);
    if (ids === undefined && this.#pen.area !== null) boxes.push(this.#pen.area.box);
    this.#camera.fit(boxes);
    this.#ask();
    this.onmoved();
  }

  /** Where it looks; null until it has a size. */
  get spot() {
    return this.#camera.spot;
  }

  /** Look elsewhere. @param {import("./camera.js").Spot} spot */
  look(spot) {
    this.#camera.look(spot);
    this.#ask();
  }

  /** Begin to draw, or stop. @param {"polygon" | "point" | null} kind */
  draw(kind) {
    if (kind === null) {
      this.#pen.cancel();
      return;
    }
    this.#pen.begin(kind);
    this.#controls.canvas.focus();
    this.#guide();
  }

  /** Show the area of a filter, or none. @param {Drawn | null} area */
  setArea(area) {
    this.#pen.setArea(area);
  }

  /** The style sheet has other colours now. */
  refreshTheme() {
    this.#colours = coloursOf(this.#host);
    this.#ask();
  }

  destroy() {
    this.#ended.abort();
    this.#observer.disconnect();
    cancelAnimationFrame(this.#frame);
    this.#host.classList.remove("world-map");
    this.#host.replaceChildren();
  }

  #listen() {
    const { canvas } = this.#controls;
    const { signal } = this.#ended;
    /** @type {import("./gestures.js").Moves} */
    const moves = {
      press: (x, y, how) => this.#press(x, y, how),
      pan: (dx, dy) => this.#moved(() => this.#camera.pan(dx, dy)),
      zoom: (factor, x, y) => this.#moved(() => this.#camera.zoom(factor, x, y)),
      tap: (x, y, how) => this.#tap(x, y, how),
      hover: (x, y) => this.#hover(x, y),
      leave: () => this.#leave(),
      key: (key, shift) => this.#key(key, shift),
    };
    new Gestures(canvas, moves, signal);
    canvas.addEventListener("focus", () => this.#focused(), { signal });
    canvas.addEventListener("blur", () => this.#ask(), { signal });
  }

  /** @param {string} url */
  async #load(url) {
    try {
      this.#world = await loadWorld(url);
    } catch {
      this.onmessage(NO_LAND);
    }
    this.#ask();
  }

  // Frames

  #resize() {
    this.#camera.resize(this.#host.clientWidth, this.#host.clientHeight);
    // A canvas is empty when its size was set, so it is painted before anybody sees it.
    this.#changed = true;
    this.#paint(performance.now());
  }

  /** Something has changed. */
  #ask() {
    this.#changed = true;
    this.#next();
  }

  #next() {
    if (this.#frame === 0 && !this.#ended.signal.aborted) {
      this.#frame = requestAnimationFrame((now) => this.#paint(now));
    }
  }

  /** @param {number} now */
  #paint(now) {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (!this.#changed && now - this.#painted < FADE) {
      this.#next();
      return;
    }
    this.#changed = false;
    this.#painted = now;
    this.#controls.count(this.shown, this.total);
    if (this.#camera.view === null) return;
    const flying = this.#camera.step(now);
    this.#follow();
    const glow = this.#glowing(now);
    /** @type {import("./paint.js").Scene} */
    const scene = {
      view: this.#camera.shown,
      ratio: sharpen(this.#controls.canvas, this.#camera.shown),
      colours: this.#colours,
      world: this.#world,
      shapes: this.#shapes,
      dots: this.#dots,
      glowing: glow,
      hovered: this.#shapes.get(this.#hovered),
      highlighted: this.#shapes.get(this.#highlighted),
      area: this.#pen.area,
      drawing: this.#pen.drawing,
      cross: this.#by === "keys" && document.activeElement === this.#controls.canvas,
    };
    const lacking = this.#backdrop.follow(scene, now);
    paint(this.#context, scene, this.#backdrop.canvas);
    if (flying) this.#ask();
    else if (lacking || glow.length > 0) this.#next();
  }

  /** @param {number} now */
  #glowing(now) {
    return this.#calm.matches ? [] : glowing(this.#shapes, now);
  }

  // Moves

  /** @param {() => void} move */
  #moved(move) {
    if (this.#camera.view === null) return;
    move();
    this.#ask();
    this.onmoved();
  }

  /** @param {number} factor @param {number} [x] @param {number} [y] */
  #closer(factor, x, y) {
    this.#moved(() => this.#camera.flyCloser(factor, x, y));
  }

  /** @param {number} x @param {number} y @param {{shift: boolean, touch: boolean}} how */
  #press(x, y, how) {
    this.#use(how.touch ? "touch" : "pointer");
    return this.#camera.view === null ? null : this.#pen.press(x, y, how);
  }

  /** @param {number} x @param {number} y @param {{double: boolean, touch: boolean}} how */
  #tap(x, y, how) {
    if (this.#camera.view === null) return;
    if (this.#pen.drawing !== null) this.#pen.tap(x, y, how);
    else if (!this.#pick(x, y, how.touch) && how.double) this.#closer(PRESS, x, y);
  }

  /** @param {number} x @param {number} y */
  #at(x, y, touch = false) {
    const view = this.#camera.shown;
    const reach = (touch ? REACH.touch : REACH.mouse) / view.scale;
    return this.#shapes.at(...unproject(view, x, y), reach);
  }

  /** Take the next shape there; false if there is none. @param {number} x @param {number} y */
  #pick(x, y, touch = false) {
    const ids = this.#at(x, y, touch);
    if (ids.length === 0) return false;
    const again = Math.hypot(x - this.#picked.x, y - this.#picked.y) <= REACH.mouse;
    const id = ids[again ? (ids.indexOf(this.#picked.id) + 1) % ids.length : 0];
    this.#picked = { id, x, y };
    this.onpick(id);
    return true;
  }

  /** @param {number} x @param {number} y */
  #hover(x, y) {
    if (this.#camera.view === null) return;
    this.#pen.point(unproject(this.#camera.view, x, y));
    const held = this.#pen.holds(x, y);
    const free = held || this.#pen.drawing !== null;
    this.#over(free ? null : (this.#at(x, y)[0] ?? null), held);
  }

  #leave() {
    this.#pen.point(null);
    this.#over(null, false);
  }

  /** @param {string | null} id @param {boolean} held */
  #over(id, held) {
    this.#controls.cursor(held ? "move" : id === null ? "pan" : "pick");
    if (id === this.#hovered) return;
    this.#hovered = id;
    this.onhover(id);
    this.#ask();
  }

  /** @param {string} key @param {boolean} shift */
  #key(key, shift) {
    if (this.#camera.view === null) return false;
    const used = this.#moveKey(key, shift) || this.#otherKey(key);
    if (used) this.#use("keys");
    return used;
  }

  /** @param {string} key @param {boolean} shift */
  #moveKey(key, shift) {
    const arrow = ARROWS[key];
    const length = shift ? FINE_ARROW : ARROW;
    if (arrow) this.#moved(() => this.#camera.pan(arrow[0] * length, arrow[1] * length));
    else if (key === "+" || key === "=") this.#closer(PRESS);
    else if (key === "-") this.#closer(1 / PRESS);
    else if (key === "0") this.fit();
    else return false;
    return true;
  }

  /** @param {string} key */
  #otherKey(key) {
    if (this.#pen.drawing !== null) return this.#pen.key(key);
    const { width, height } = this.#camera.shown;
    return key === "Enter" && this.#pick(width / 2, height / 2);
  }

  #focused() {
    if (this.#controls.canvas.matches(":focus-visible")) this.#use("keys");
  }

  /** The hint and the cross follow what the reader uses.
   *  @param {"keys" | "touch" | "pointer"} by */
  #use(by) {
    if (this.#by === by) return;
    this.#by = by;
    this.#guide();
  }

  #guide() {
    this.#controls.guide(this.#pen.drawing?.kind ?? null, this.#by);
    this.#ask();
  }

  /** With keys the next corner is in the middle, wherever the map goes. */
  #follow() {
    const { drawing } = this.#pen;
    const { lat, lon } = this.#camera.shown;
    if (drawing !== null && this.#by === "keys") drawing.next = [lat, lon];
  }
}
