// One notification, whole: the CloudEvent as the server sent it, and its id to take along.

import { copy, fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { since, stamp } from "../moments.js";
import { pretty } from "../request/request.js";

/** Longer texts are cut in view; the copy has all. */
const SHOWN = 200_000;
/** Only https: another scheme could run something here. */
const ADDRESS = /(https:\/\/[^\s"'<>\\]+)/;

/** @import { Notification } from "../stream/sse.js" */

export class Details {
  #closed;
  /** @type {Notification | null} */
  item = null;

  /** @param {{closed: () => void, locate: (id: string) => void,
   *   link: (item: Notification) => string}} hooks */
  constructor({ closed, locate, link }) {
    this.#closed = closed;
    this.title = h("h2", { tabIndex: -1 });
    this.when = h("p", { class: "when" });
    this.code = h("code");
    this.copyId = h("button", { type: "button" }, "Copy id");
    this.copyLink = h("button", { type: "button" }, "Copy link");
    this.copyAll = h("button", { type: "button" }, "Copy CloudEvent");
    this.find = h("button", { type: "button" }, "Show on the map");
    const shut = h(
      "button",
      {
        type: "button",
        class: "bare",
        "aria-label": "Close details",
        on: { click: () => this.close() },
      },
      icon("close"),
    );
    this.element = h(
      "aside",
      { class: "details", hidden: true, "aria-label": "Details of a notification" },
      h("header", {}, h("div", {}, this.title, this.when), shut),
      h("div", { class: "buttons" }, this.copyId, this.copyLink, this.copyAll, this.find),
      h("pre", { tabIndex: 0 }, this.code),
    );
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    this.copyId.addEventListener("click", () => copy(this.item?.id ?? "", this.copyId));
    this.copyLink.addEventListener("click", () => {
      const address = this.item === null ? "" : link(this.item);
      copy(new URL(address, location.href).href, this.copyLink);
    });
    this.copyAll.addEventListener("click", () => copy(this.#text(), this.copyAll));
    this.find.addEventListener("click", () => this.item && locate(this.item.id));
  }

  /** @param {Notification} item @param {boolean} placed whether it is on the map */
  open(item, placed) {
    this.item = item;
    const text = this.#text();
    const cut = text.length > SHOWN;
    fill(this.title, item.id);
    fill(this.when, `${stamp(item.time)} · ${since(item.time)}`);
    fill(
      this.code,
      linked(cut ? `${text.slice(0, SHOWN)}\n… cut here; the copy has all of it` : text),
    );
    this.find.hidden = !placed;
    this.element.hidden = false;
    this.title.focus({ preventScroll: true });
  }

  close() {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.item = null;
    this.#closed();
  }

  #text() {
    return pretty(this.item ?? {});
  }
}

/** A text with its web addresses as links. Where they lead is not told who sent the reader.
 *  @param {string} text */
function linked(text) {
  return text.split(ADDRESS).map((part, place) =>
    place % 2 === 0
      ? part
      : h("a", { href: part, target: "_blank", rel: "noopener noreferrer" }, part)
  );
}
