// Who is signed in, and what the role allows: the corner of the page's head.

import { fill, h } from "./dom.js";
import { icon } from "./icons.js";
import { stamp } from "./moments.js";

export class Account {
  /** @param {import("./main.js").App} app */
  constructor(app) {
    this.app = app;
    this.button = h("button", { type: "button", class: "account" });
    this.box = h("div", { class: "account-box", popover: "auto", id: "account-box" });
    this.button.addEventListener("click", () => this.#click());
    this.element = h("div", {}, this.button, this.box);
    app.session.addEventListener("change", () => this.show());
    this.show();
  }

  /** Say who it is. */
  show() {
    const { who } = this.app.session;
    fill(this.button, icon("user"), who === null ? "Sign in" : who.username);
    // Where nobody is asked, there is nothing to sign in to.
    this.button.hidden = who === null && this.app.overview?.auth_enabled === false;
    this.button.classList.toggle("known", who !== null);
    if (who === null) this.button.removeAttribute("aria-haspopup");
    else this.button.setAttribute("aria-haspopup", "dialog");
  }

  #click() {
    if (this.app.session.who === null) {
      this.app.signIn();
      return;
    }
    this.#fill();
    this.box.togglePopover();
  }

  #fill() {
    const { who } = this.app.session;
    if (who === null) return;
    const types = this.app.overview?.event_types ?? [];
    /** @param {(item: import("./views/overview.js").Item) => boolean} test */
    const named = (test) =>
      types.filter(test).map((item) => item.event_type).join(", ") || "nothing";
    const leave = h("button", { type: "button", on: { click: () => this.#leave() } }, "Sign out");
    const rows = [
      ["user", who.username],
      ["realm", who.realm ?? "none"],
      ["roles", who.roles.join(", ") || "none"],
      ["may read", named((item) => item.readable)],
      ["may publish", named((item) => item.writable)],
      ["may remove", who.admin ? "everything (administrator)" : "nothing"],
      ["until", who.expires_at === null ? "no end given" : stamp(who.expires_at)],
    ];
    fill(
      this.box,
      h(
        "dl",
        { class: "facts" },
        rows.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]),
      ),
      h("div", { class: "buttons end" }, leave),
    );
  }

  #leave() {
    this.box.hidePopover();
    this.app.session.leave();
  }
}
