// Who uses the page. The credential lives in this object and nowhere else: not in storage, not in
// an address, not in the document. A reload of the page forgets it.

/**
 * The answer of `api/v1/auth/check`.
 * @typedef {{username: string, realm: string | null, roles: string[], admin: boolean,
 *   expires_at: string | null}} Who
 */

/** Holds the credential and what the server says of it; an "change" event tells of both. */
export class Session extends EventTarget {
  /** @type {string | null} */
  #header = null;
  /** @type {Who | null} */
  #who = null;

  /** The value of the Authorization header; null for nobody. */
  get header() {
    return this.#header;
  }

  /** The answer of `api/v1/auth/check`; null for nobody. */
  get who() {
    return this.#who;
  }

  /** How commands sign in; the secret is never shown. @returns {"bearer" | "basic" | null} */
  get scheme() {
    if (this.#header === null) return null;
    return this.#header.startsWith("Basic ") ? "basic" : "bearer";
  }

  /** Remember a credential that the server accepted.
   *  @param {string | null} header @param {Who | null} who */
  enter(header, who) {
    this.#header = header;
    this.#who = who;
    this.dispatchEvent(new Event("change"));
  }

  /** Forget it. */
  leave() {
    this.enter(null, null);
  }
}

/** The header of a token; a pasted "Bearer " in front of it does not matter.
 *  @param {string} token */
export function bearer(token) {
  return `Bearer ${token.trim().replace(/^bearer\s+/i, "")}`;
}

/** The header of a user and a password, in UTF-8 (RFC 7617).
 *  @param {string} user @param {string} password */
export function basic(user, password) {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}
