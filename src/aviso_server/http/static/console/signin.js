// The box that asks who is there: a token, or a user and a password where the server takes those.
//
// What is typed is tried on the server before it counts. It is cleared when the box closes.

import { fill, h, uid } from "./dom.js";
import { basic, bearer } from "./session.js";

const CHECK = "api/v1/auth/check";

export class SignIn {
  #api;
  #session;
  /** @type {PromiseWithResolvers<boolean> | null} */
  #waiting = null;

  /** @param {import("./api.js").Api} api @param {import("./session.js").Session} session */
  constructor(api, session) {
    this.#api = api;
    this.#session = session;
    const id = uid("sign-in");
    this.reason = h("p", { class: "soft" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.token = input("password", "Token", "current-password");
    this.user = input("text", "User", "username");
    this.password = input("password", "Password", "current-password");
    this.way = h(
      "div",
      { class: "segments", role: "radiogroup", "aria-label": "Sign in with" },
      segment(id, "token", "Token", true, () => this.#turn()),
      segment(id, "basic", "User and password", false, () => this.#turn()),
    );
    this.submit = h("button", { type: "submit", class: "primary" }, "Sign in");
    const cancel = h(
      "button",
      { type: "button", on: { click: () => this.dialog.close() } },
      "Cancel",
    );
    this.form = h(
      "form",
      { method: "dialog", noValidate: true },
      h("h2", { id: `${id}-title` }, "Sign in"),
      this.reason,
      this.way,
      this.token.element,
      this.user.element,
      this.password.element,
      this.problem,
      h(
        "p",
        { class: "small soft" },
        "Kept in this page's memory only, until it is closed or reloaded.",
      ),
      h("div", { class: "buttons end" }, cancel, this.submit),
    );
    this.dialog = h("dialog", { class: "sign-in", "aria-labelledby": `${id}-title` }, this.form);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#try();
    });
    this.dialog.addEventListener("close", () => this.#done(false));
    this.#turn();
  }

  /** Ask, unless somebody is being asked already.
   *  @param {import("./api.js").Failure | null} error
   *  @returns {Promise<boolean>} whether it worked */
  ask(error) {
    if (this.#waiting === null) {
      this.#waiting = Promise.withResolvers();
      const ways = error?.challenges ?? [];
      this.way.hidden = ways.length > 0 && !ways.includes("Basic");
      fill(this.reason, error?.message ?? "Sign in to see and do what your role allows.");
      this.#complain("");
      this.dialog.showModal();
    }
    return this.#waiting.promise;
  }

  /** @param {boolean} signedIn */
  #done(signedIn) {
    for (const item of [this.token, this.user, this.password]) item.input.value = "";
    this.#waiting?.resolve(signedIn);
    this.#waiting = null;
  }

  async #try() {
    const header = this.#header();
    if (header === null) return;
    this.submit.disabled = true;
    try {
      const who = await this.#api.get(CHECK, { header });
      this.#session.enter(header, who);
      this.#done(true);
      this.dialog.close();
    } catch (error) {
      this.#complain(/** @type {Error} */ (error).message);
    } finally {
      this.submit.disabled = false;
    }
  }

  #header() {
    const withToken = this.#way() === "token";
    const needed = withToken ? this.token : this.user;
    const secret = withToken ? this.token : this.password;
    if (needed.input.value.trim() === "") {
      this.#complain(withToken ? "Paste a token" : "Enter a user");
      needed.input.focus();
      return null;
    }
    if (withToken) return bearer(secret.input.value);
    return basic(this.user.input.value, secret.input.value);
  }

  #way() {
    const chosen = this.way.querySelector("input:checked");
    return /** @type {HTMLInputElement} */ (chosen).value;
  }

  #turn() {
    const withToken = this.#way() === "token";
    this.token.element.hidden = !withToken;
    this.user.element.hidden = withToken;
    this.password.element.hidden = withToken;
  }

  /** @param {string} text */
  #complain(text) {
    fill(this.problem, text);
    this.problem.hidden = !text;
  }
}

/** @param {string} type @param {string} label @param {string} autocomplete */
function input(type, label, autocomplete) {
  const id = uid("sign-in-input");
  const element = h("input", { id, type, autocomplete, spellcheck: false, autocapitalize: "none" });
  const caption = h("label", { class: "label", htmlFor: id }, label);
  return { input: element, element: h("div", { class: "field" }, caption, element) };
}

/** @param {string} group @param {string} value @param {string} label @param {boolean} checked
 *  @param {() => void} change */
function segment(group, value, label, checked, change) {
  const radio = h("input", { type: "radio", name: group, value, checked, on: { change } });
  return h("label", { class: "chip" }, radio, label);
}
