// The live view: choose, watch, see.

import { fill } from "../dom.js";
import { icon } from "../icons.js";
import { StreamView } from "./stream.js";

export class LiveView extends StreamView {
  #asked = "";
  /** Which of the lanes it is, in the order in which they were opened. */
  number = 0;

  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app, {
      title: "Live",
      kind: "watch",
      image: "live",
      verb: "Watch",
      idle: "Not watching",
      results: {
        label: "Live notifications",
        empty: "Notifications appear here as they are published.",
      },
      from: ["now", "first", "id", "date"],
    });
  }

  /**
   * While a stream runs, the button stops it, or, when the form asks for another, begins anew.
   * @param {import("./stream.js").Request} request
   * @override
   */
  differs(request) {
    if (this.follower === null) return;
    const same = JSON.stringify(request) === this.#asked;
    fill(this.go, icon(same ? "stop" : "live"), same ? "Stop" : "Watch this instead");
  }

  /** @override @param {import("./stream.js").Notification[]} notifications */
  received(notifications) {
    super.received(notifications);
    this.app.arrived(notifications.length);
  }

  /** @override */
  toggle() {
    const request = this.query.read();
    const same = request === null || JSON.stringify(request) === this.#asked;
    if (this.follower !== null && same) this.stop();
    else if (request !== null) {
      this.#asked = JSON.stringify(request);
      this.begin(request);
    }
  }
}
