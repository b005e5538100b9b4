// The request as text: the JSON itself, a curl line, and Python for the pyaviso client.

import { copy, fill, h, uid } from "../dom.js";
import { curlLine, pretty, pyavisoLines } from "./request.js";

/** @import { Request } from "./request.js" */

export class Snippets {
  /** @type {Record<string, string>} */
  #texts = {};
  #shown = "json";

  /** How commands reach the server and sign in.
   *  @param {() => {base: string, scheme: "bearer" | "basic" | null}} where */
  constructor(where) {
    this.where = where;
    this.code = h("code");
    const id = uid("snippet");
    this.tabs = [
      ["json", "Request"],
      ["curl", "curl"],
      ["python", "pyaviso"],
    ].map(([name, label]) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          id: `${id}-${name}`,
          "aria-controls": id,
          dataset: { name },
          on: { click: () => this.#show(name), keydown: this.#step.bind(this) },
        },
        label,
      )
    );
    const button = h("button", { type: "button", class: "copy" }, "Copy");
    button.addEventListener("click", () => copy(this.#texts[this.#shown], button));
    this.element = h(
      "section",
      { class: "snippets", "aria-label": "The same from elsewhere" },
      h("div", { class: "tabs" }, h("div", { role: "tablist" }, this.tabs), button),
      h("pre", { id, role: "tabpanel", tabIndex: 0 }, this.code),
    );
    this.#show("json");
  }

  /** @param {"watch" | "replay" | "notify"} kind @param {Request} request */
  show(kind, request) {
    const { base, scheme } = this.where();
    this.#texts = {
      json: pretty(request),
      curl: curlLine({ base, kind, request, auth: scheme }),
      python: pyavisoLines({ base, kind, request, auth: scheme }),
    };
    this.#show(this.#shown);
  }

  /** @param {string} name */
  #show(name) {
    this.#shown = name;
    for (const tab of this.tabs) {
      const chosen = tab.dataset.name === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) this.code.parentElement?.setAttribute("aria-labelledby", tab.id);
    }
    fill(this.code, this.#texts[name] ?? "");
  }

  /** @param {KeyboardEvent} event */
  #step(event) {
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    const move = event.key === "ArrowRight" ? 1 : -1;
    const place = this.tabs.findIndex((tab) => tab.dataset.name === this.#shown);
    const next = this.tabs[(place + move + this.tabs.length) % this.tabs.length];
    this.#show(next.dataset.name ?? "json");
    next.focus();
    event.preventDefault();
  }
}
