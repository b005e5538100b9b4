// Pointer, wheel and keys on the map's canvas, turned into moves. What a tap or a key means is for
// the map to say; here it is only told apart from a drag, a pinch and a double click.

/** Pixels that a press may wander and still be a tap: a mouse is steady, a finger is not. */
/** @type {Record<string, number>} */
const STEADY = { mouse: 4, pen: 6, touch: 10 };
/** Zoom for each pixel that a wheel turned; a pinch on a touchpad comes as tiny turns with Ctrl. */
const WHEEL = 0.002;
const PINCHED = 0.01;
/** Pixels of a line and of a page, for wheels that count in them. */
const UNITS = [1, 30, 400];

/** @typedef {{move(x: number, y: number): void, end(x: number, y: number): void,
 *  cancel(): void}} Drag */
/** @typedef {{
 *  press(x: number, y: number, how: {shift: boolean, touch: boolean}): Drag | null,
 *  pan(dx: number, dy: number): void,
 *  zoom(factor: number, x: number, y: number): void,
 *  tap(x: number, y: number, how: {double: boolean, touch: boolean}): void,
 *  hover(x: number, y: number): void,
 *  leave(): void,
 *  key(key: string, shift: boolean): boolean}} Moves
 *  `press` may take the drag for itself, else it pans; `key` says whether it had a use for it. */

export class Gestures {
  #canvas;
  #moves;
  /** @type {Map<number, [number, number]>} where each finger is */
  #pointers = new Map();
  /** @type {[number, number]} */
  #start = [0, 0];
  #moved = false;
  /** @type {Drag | null} */
  #drag = null;
  #touch = false;

  /** @param {HTMLCanvasElement} canvas @param {Moves} moves @param {AbortSignal} signal ends it */
  constructor(canvas, moves, signal) {
    this.#canvas = canvas;
    this.#moves = moves;
    /**
     * @template {keyof HTMLElementEventMap} Name
     * @param {Name} name
     * @param {(event: HTMLElementEventMap[Name]) => void} listener
     */
    const on = (name, listener, options = {}) =>
      canvas.addEventListener(name, listener, { signal, ...options });
    on("pointerdown", (event) => this.#down(event));
    on("pointermove", (event) => this.#move(event));
    on("pointerup", (event) => this.#up(event));
    on("pointercancel", (event) => this.#cancel(event));
    on("pointerleave", () => moves.leave());
    on("click", (event) => this.#click(event));
    on("wheel", (event) => this.#wheel(event), { passive: false });
    on("keydown", (event) => this.#key(event));
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.button !== 0) return;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, placeOf(event));
    this.#touch = event.pointerType === "touch";
    if (this.#pointers.size === 1) {
      this.#start = placeOf(event);
      this.#moved = false;
      this.#drag = this.#moves.press(...this.#start, { shift: event.shiftKey, touch: this.#touch });
    } else {
      // A second finger makes it a pinch.
      this.#moved = true;
      this.#drag?.cancel();
      this.#drag = null;
    }
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const before = this.#pointers.get(event.pointerId);
    const now = placeOf(event);
    if (before === undefined) {
      this.#moves.hover(...now);
      return;
    }
    if (!this.#moved && apart(this.#start, now) <= (STEADY[event.pointerType] ?? 4)) return;
    this.#moved = true;
    this.#pointers.set(event.pointerId, now);
    if (this.#drag !== null) this.#drag.move(...now);
    else if (this.#pointers.size === 1) this.#moves.pan(now[0] - before[0], now[1] - before[1]);
    else this.#pinch(event.pointerId, before, now);
  }

  /** @param {number} id @param {[number, number]} from @param {[number, number]} now */
  #pinch(id, from, now) {
    const [other] = [...this.#pointers].filter(([key]) => key !== id).map(([, place]) => place);
    /** @type {[number, number]} */
    const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
    this.#moves.pan((now[0] - from[0]) / 2, (now[1] - from[1]) / 2);
    this.#moves.zoom(apart(now, other) / Math.max(apart(from, other), 1), ...middle);
  }

  /** @param {PointerEvent} event */
  #up(event) {
    if (!this.#pointers.delete(event.pointerId) || this.#drag === null) return;
    const drag = this.#drag;
    this.#drag = null;
    if (this.#moved) drag.end(...placeOf(event));
    else drag.cancel();
  }

  /** @param {PointerEvent} event */
  #cancel(event) {
    this.#pointers.delete(event.pointerId);
    this.#moved = true;
    this.#drag?.cancel();
    this.#drag = null;
  }

  /** @param {PointerEvent} event */
  #click(event) {
    if (this.#moved) return;
    this.#moves.tap(...placeOf(event), { double: event.detail > 1, touch: this.#touch });
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    event.preventDefault();
    const turned = event.deltaY * UNITS[event.deltaMode];
    const factor = Math.exp(-turned * (event.ctrlKey ? PINCHED : WHEEL));
    this.#moves.zoom(factor, ...placeOf(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.#moves.key(event.key, event.shiftKey)) event.preventDefault();
  }
}

/** @returns {[number, number]} @param {MouseEvent} event */
function placeOf(event) {
  return [event.offsetX, event.offsetY];
}

/** @param {[number, number]} a @param {[number, number]} b */
function apart(a, b) {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}
