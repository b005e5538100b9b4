// What is new glows for a while, and fades.

/** Milliseconds for which something new glows, and how many do at once. */
const GLOW = 1500;
const GLOWING = 50;
/** Milliseconds from one picture of it to the next: nobody sees a fade any finer. */
export const FADE = 50;

/** What glows at a moment, and how strongly.
 *  @param {import("./shapes.js").Shapes} shapes @param {number} now */
export function glowing(shapes, now) {
  return shapes.since(now - GLOW, GLOWING).map((shape) => {
    const age = Math.min(Math.max((now - shape.born) / GLOW, 0), 1);
    return { shape, strength: (1 - age) ** 2 };
  });
}
