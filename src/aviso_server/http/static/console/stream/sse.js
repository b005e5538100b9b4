// Server-sent events, from text in any pieces to frames.
//
// `EventSource` cannot send a body or an Authorization header, so the stream of a fetch is read
// here. Rules
// - However the text is cut into pieces, the frames are the same.
// - LF, CRLF and CR end a line; comments, `id`, `retry` and unknown fields are passed over; several
//   data lines are one text with line feeds between them; a frame without data is none.
// - Memory is bounded: a frame that grows over the limit ends the reading.

/** Characters of one frame; what the server may send at most is far below. */
const LIMIT = 32 * 2 ** 20;

/**
 * @typedef {{event: string, data: any}} Frame `data` is parsed JSON
 * @typedef {{sequence: number, id: string, time: string, data: {identifier: Record<string, any>,
 *   payload: any}}} Notification a CloudEvent, as far as the page looks at it
 */

/** Cuts the text of a stream into frames. After it threw, it is of no more use. */
export class Frames {
  #limit;
  #line = "";
  /** @type {string | null} */
  #data = null;
  #event = "";
  #afterReturn = false;
  #begun = false;

  constructor({ limit = LIMIT } = {}) {
    this.#limit = limit;
  }

  /**
   * @param {string} text the next piece of the stream
   * @returns {Frame[]} the frames that end in it
   * @throws {Error} for a frame over the limit or with data that is not JSON
   */
  push(text) {
    const frames = [];
    let from = this.#skip(text);
    // Each piece is searched once; what is left of it waits in `#line` and is not searched again.
    const ends = /\r\n?|\n/g;
    ends.lastIndex = from;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      this.#grow(text.slice(from, end.index));
      const frame = this.#finishLine();
      if (frame !== null) frames.push(frame);
      from = ends.lastIndex;
    }
    this.#grow(text.slice(from));
    if (text !== "") this.#afterReturn = text.endsWith("\r");
    return frames;
  }

  /** How much of a piece belongs to what came before it, or to nothing. @param {string} text */
  #skip(text) {
    if (text === "") return 0;
    const mark = !this.#begun && text.startsWith("\ufeff");
    this.#begun = true;
    // The line already ended at the carriage return; this is the other half of its CRLF.
    return mark || (this.#afterReturn && text.startsWith("\n")) ? 1 : 0;
  }

  /** @param {string} piece */
  #grow(piece) {
    this.#line += piece;
    if (this.#line.length + (this.#data?.length ?? 0) > this.#limit) {
      throw new Error(`A frame of the stream is longer than ${this.#limit} characters.`);
    }
  }

  /** Take in the line that is complete; the frame, if this line ends one. */
  #finishLine() {
    const line = this.#line;
    this.#line = "";
    if (line === "") return this.#finishFrame();
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const rest = colon === -1 ? "" : line.slice(colon + 1);
    const value = rest.startsWith(" ") ? rest.slice(1) : rest;
    if (name === "event") this.#event = value;
    if (name === "data") this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
    return null;
  }

  #finishFrame() {
    const data = this.#data;
    const event = this.#event || "message";
    this.#data = null;
    this.#event = "";
    return data === null ? null : { event, data: parsed(data) };
  }
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error("A frame of the stream is not JSON.", { cause: error });
  }
}

/**
 * The frames of an answer as they arrive, one array per piece that holds any.
 *
 * Leaving the loop, for whatever reason, closes the connection.
 * @param {Response} response
 * @param {() => void} [heard] called for every piece, also for one without a whole frame
 * @returns {AsyncGenerator<Frame[]>}
 */
export async function* batches(response, heard = () => {}) {
  if (response.body === null) return;
  const reader = response.body.getReader();
  // The byte order mark is left in the text: `Frames` knows it.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const frames = new Frames();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const found = frames.push(decoder.decode(value, { stream: true }));
      if (found.length > 0) yield found;
    }
  } finally {
    // A connection that broke cannot be cancelled either; that is no news.
    await reader.cancel().catch(() => {});
  }
}
