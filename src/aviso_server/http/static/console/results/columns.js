// The columns of the table: which there can be, which are shown, and how they are chosen.

import { clipped, summary } from "../form/fields.js";
import { clock, stamp } from "../moments.js";
import { compareTexts, fieldOf, valueAt } from "./search.js";

/** @import { Notification } from "../stream/sse.js" */
/** @import { Column } from "./table.js" */

/** Fields that get a column unless others are chosen; the details have all. */
const USUAL = 7;
const PAYLOAD = 160;
/** Members of payloads that are offered, and the notifications that are looked at for them. */
const OFFERED = 40;
const LOOKED_AT = 50;
const DEEPEST = 3;

/** The columns that are there without a choice.
 *  @param {import("../form/fields.js").Field[]} fields @returns {string[]} */
export function usualNames(fields) {
  const plain = fields.filter((field) => field.kind !== "polygon" && field.kind !== "cloud");
  const names = fields.length === 0 ? [""] : plain.slice(0, USUAL).map((field) => field.name);
  return [...names, "payload"];
}

/** The number and the time of a notification, whose names no field has, and a column for each name.
 *  @param {string[]} names fields, or paths into the payload
 *  @param {boolean} dated whether the day is part of the time @returns {Column[]} */
export function columnsOf(names, dated) {
  return [
    {
      name: ".sequence",
      label: "#",
      width: "5.5rem",
      kind: "number",
      text: (item) => String(item.sequence),
    },
    {
      name: ".time",
      label: "stored (UTC)",
      width: dated ? "12rem" : "8.5rem",
      kind: "mono",
      text: (item) => (dated ? `${item.time.slice(0, 10)} ` : "") + clock(item.time),
      full: (item) => item.time,
      title: (item) => stamp(item.time),
    },
    ...names.map(columnOf),
  ];
}

/** @param {string} name @returns {Column} */
function columnOf(name) {
  // An event type without schema: whatever its notifications have.
  if (name === "") {
    return {
      name,
      label: "identifier",
      width: "minmax(10rem, 2fr)",
      text: (item) => summary(item.data.identifier),
    };
  }
  const payload = name === "payload" || name.startsWith("payload.");
  /** @param {Notification} item */
  const full = (item) => (payload ? valueAt(item, name) : fieldOf(item, name)) ?? "";
  const width = name === "payload" ? "minmax(10rem, 2fr)" : "minmax(5.5rem, 1fr)";
  return {
    name,
    label: name,
    width,
    kind: payload ? "soft" : "",
    full,
    text: (item) => clipped(full(item), PAYLOAD),
  };
}

/** What payloads have, by path, for those who want a column of it.
 *  @param {Notification[]} items @returns {string[]} */
export function payloadPaths(items) {
  /** @type {Set<string>} */
  const paths = new Set();
  for (const item of items.slice(0, LOOKED_AT)) collect(item.data.payload, "payload", paths, 0);
  return [...paths].sort().slice(0, OFFERED);
}

/** The order that a column gives; `down` turns it round.
 *  @param {Column} column @param {boolean} down
 *  @returns {import("./selection.js").Order} */
export function orderBy(column, down) {
  const text = column.full ?? column.text;
  return (one, other) => (down ? -1 : 1) * compareTexts(text(one), text(other));
}

/** @param {any} value @param {string} path @param {Set<string>} paths @param {number} depth */
function collect(value, path, paths, depth) {
  if (typeof value !== "object" || value === null || Array.isArray(value) || depth === DEEPEST) {
    if (depth > 0) paths.add(path);
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    // A dot in a name could not be told from a step.
    if (!name.includes(".")) collect(member, `${path}.${name}`, paths, depth + 1);
  }
}
