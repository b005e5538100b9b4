// Talking to the server: addresses relative to the page, credentials in a header, errors in words.
//
// - Nothing is asked of any other host, and no credential is ever part of an address.
// - `credentials: "omit"` keeps the browser from opening its own password box on a 401.

/** What the server answered when it refused, or that it did not answer at all (status 0). */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, code?: string, field?: string, details?: string, requestId?: string,
   *   retryAfterS?: number | null, challenges?: string[]}} [told]
   */
  constructor(
    message,
    { status = 0, code, field, details, requestId, retryAfterS, challenges } = {},
  ) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code ?? "";
    /** The field of the identifier, or the member of the request, that it is about. */
    this.field = field ?? null;
    this.details = details ?? "";
    this.requestId = requestId ?? "";
    this.retryAfterS = retryAfterS ?? null;
    /** Ways to sign in that a 401 offers: "Bearer", "Basic". */
    this.challenges = challenges ?? [];
  }
}

/** @typedef {Error & Partial<ApiError>} Failure an ApiError, or another one */

const UNREACHABLE = "The server cannot be reached.";

/** The endpoints, for whoever `session` is. */
export class Api {
  #session;

  /** @param {{header: string | null}} session */
  constructor(session) {
    this.#session = session;
  }

  /** Where commands outside of the page find the server: the folder of the page's address. */
  get base() {
    return new URL(".", document.baseURI).href.replace(/\/$/, "");
  }

  /**
   * @param {string} path
   * @param {{header?: string}} [options] a credential to try instead of the session's
   * @returns {Promise<any>} the JSON answer
   */
  async get(path, { header } = {}) {
    const response = await this.#ask(path, { method: "GET" }, header);
    return response.json();
  }

  /** @param {string} path @param {object} body @param {Record<string, string>} [headers]
   *  @returns {Promise<any>} the JSON answer */
  async send(path, body, headers = {}) {
    const response = await this.stream(path, body, undefined, headers);
    return response.json();
  }

  /** @param {string} path @param {object} body @param {AbortSignal} [signal]
   *  @param {Record<string, string>} [headers]
   *  @returns {Promise<Response>} an answer that is read as it comes */
  stream(path, body, signal, headers = {}) {
    const asked = { method: "POST", signal, body: JSON.stringify(body) };
    return this.#ask(path, {
      ...asked,
      headers: { "Content-Type": "application/json", ...headers },
    });
  }

  /** @param {string} path @param {RequestInit & {headers?: Record<string, string>}} options
   *  @param {string | null} [header] */
  async #ask(path, options, header = this.#session.header) {
    const headers = { ...options.headers, ...(header ? { Authorization: header } : {}) };
    /** @type {RequestInit} */
    const always = { cache: "no-store", credentials: "omit", redirect: "error" };
    let response;
    try {
      response = await fetch(path, { ...options, ...always, headers });
    } catch (caught) {
      const error = /** @type {Error} */ (caught);
      if (error.name === "AbortError") throw error;
      throw new ApiError(UNREACHABLE, { details: error.message });
    }
    if (!response.ok) throw await refused(response);
    return response;
  }
}

/** @param {Response} response */
async function refused(response) {
  /** @type {Record<string, any>} */
  let body = {};
  try {
    body = await response.json();
  } catch {
    // Not every refusal has a body, and a proxy in between answers as it likes.
  }
  return new ApiError(body.message ?? `The server answered ${response.status}.`, {
    status: response.status,
    code: body.code,
    field: body.field,
    details: body.details,
    requestId: body.request_id ?? response.headers.get("X-Request-ID"),
    retryAfterS: seconds(response.headers.get("Retry-After")),
    challenges: (response.headers.get("WWW-Authenticate") ?? "").split(/[\s,]+/).filter(Boolean),
  });
}

/** @param {string | null} text */
function seconds(text) {
  if (text === null) return null;
  if (/^\d+$/.test(text)) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, (at - Date.now()) / 1000);
}
