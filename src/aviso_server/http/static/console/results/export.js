// What is shown, as a file to take along.

import { geometryOf } from "../form/places.js";

/** @import { Notification } from "../stream/sse.js" */
/** @import { Column } from "./table.js" */

const PLACES = ["polygon", "point_cloud"];

/** @typedef {{type: string, text: (rows: Notification[], columns: Column[]) => string}} Format */

/** @type {Record<string, Format>} */
export const FORMATS = {
  NDJSON: {
    type: "application/x-ndjson",
    text: (rows) => lines(rows.map((row) => JSON.stringify(row))),
  },
  CSV: { type: "text/csv", text: csvOf },
  GeoJSON: { type: "application/geo+json", text: geojsonOf },
};

/** Let the browser keep a text as a file.
 *  @param {string} name @param {string} type @param {string} text */
export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  // The browser has read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** @param {Notification[]} rows @param {Column[]} columns */
export function csvOf(rows, columns) {
  const head = columns.map((column) => cell(column.label)).join(",");
  const body = rows.map((row) =>
    columns.map((column) => cell((column.full ?? column.text)(row))).join(",")
  );
  return [head, ...body].map((line) => `${line}\r\n`).join("");
}

/** Places stand in the order of GeoJSON, longitude first. @param {Notification[]} rows */
export function geojsonOf(rows) {
  return JSON.stringify({ type: "FeatureCollection", features: rows.map(featureOf) });
}

/** @param {Notification} row */
function featureOf(row) {
  const { identifier, payload } = row.data;
  const plain = Object.entries(identifier).filter(([name]) => !PLACES.includes(name));
  const { polygon, points } = geometryOf(row) ?? {};
  const geometry = polygon
    ? { type: "Polygon", coordinates: [polygon.map(swapped)] }
    : points
    ? { type: "MultiPoint", coordinates: points.map(swapped) }
    : null;
  const properties = {
    sequence: row.sequence,
    time: row.time,
    ...Object.fromEntries(plain),
    payload,
  };
  return { type: "Feature", id: row.id, geometry, properties };
}

/** @param {[number, number]} place */
function swapped([lat, lon]) {
  return [lon, lat];
}

/** @param {string} text */
function cell(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {string[]} all */
function lines(all) {
  return all.map((line) => `${line}\n`).join("");
}
