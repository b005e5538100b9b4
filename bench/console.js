// The benchmark's hand in a page of the console: it counts frames and long tasks, notes when what
// was shown, and does what a reader does, one step per frame. Put there before the page's own
// scripts.

globalThis.bench = (() => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const all = (selector) => [...document.querySelectorAll(`main > :not([hidden]) ${selector}`)];
  const whole = (text) => Number(text.replaceAll(",", "")) || 0;

  let watched = null;
  /** When each number of received notifications and each last sequence came to be seen. */
  const seen = [];

  /** Counts frames and long tasks from now on. */
  function probe() {
    const times = [performance.now()];
    const tasks = [];
    const note = (entries) => tasks.push(...entries.map((entry) => entry.duration));
    const observer = new PerformanceObserver((list) => note(list.getEntries()));
    observer.observe({ type: "longtask" });
    let running = true;
    const tick = () => {
      if (!running) return;
      times.push(performance.now());
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    return () => {
      running = false;
      note(observer.takeRecords());
      observer.disconnect();
      return { gaps: times.slice(1).map((time, i) => time - times[i]), tasks };
    };
  }

  /** Do a step in each frame until there are no more, and count. */
  async function moving(step) {
    const counted = probe();
    for (let i = 0; step(i); i += 1) await frame();
    await frame();
    return counted();
  }

  return {
    /** Nothing for so long. */
    idle(ms) {
      const begun = performance.now();
      return moving(() => performance.now() - begun < ms);
    },

    /** Count from now on, and note when what is received comes to be seen. */
    begin() {
      const [received, , last] = all(".counters dd");
      const note = () =>
        seen.push([Date.now(), whole(received.textContent), whole(last.textContent)]);
      new MutationObserver(note).observe(received, { childList: true, characterData: true });
      watched = probe();
    },

    end() {
      return { ...watched(), seen };
    },

    /** Wait until so many were received. */
    async reached(number) {
      while ((seen.at(-1)?.[1] ?? 0) < number) await frame();
      await frame();
    },

    /** Press the button that starts the stream, and wait until so many were received. */
    async read(number) {
      this.begin();
      all(".go button")[0].click();
      await this.reached(number);
      return this.end();
    },

    /** Scroll the table from one end to the other; the sequences it showed, by row. */
    async scroll() {
      const [table] = all(".table");
      const shown = () => all(".table-row:not([hidden])");
      const step = shown()[0].offsetHeight * (shown().length - 1);
      const rows = [];
      // The first pixel only makes the table draw in every frame from then on. Rows are read in the
      // frame after the one that drew them.
      let left = 3;
      const counted = await moving((i) => {
        for (const row of shown()) rows[row.dataset.index] = row.firstChild.textContent;
        table.scrollTop = i < 2 ? i : (i - 1) * step;
        if (i * step > table.scrollHeight) left -= 1;
        return left > 0;
      });
      return { ...counted, rows: rows.map(Number) };
    },

    /** Drag and zoom the map for so long; the mouse is down on it already. */
    roam(ms) {
      const [canvas] = all("canvas");
      const { x, y, width, height } = canvas.getBoundingClientRect();
      const begun = performance.now();
      return moving((i) => {
        const there = {
          pointerId: 1,
          pointerType: "mouse",
          bubbles: true,
          cancelable: true,
          clientX: x + width * (0.5 + 0.4 * Math.sin(i / 20)),
          clientY: y + height * (0.5 + 0.3 * Math.sin(i / 31)),
          deltaY: 25 * Math.sin(i / 25),
        };
        canvas.dispatchEvent(new PointerEvent("pointermove", there));
        canvas.dispatchEvent(new WheelEvent("wheel", there));
        return performance.now() - begun < ms;
      });
    },

    /** Pull the slider of the replay from the end to the beginning, or back, in so many steps. */
    pull(steps, back) {
      const [slider] = all(".timeline input[type=range]");
      return moving((i) => {
        const share = back ? 1 - i / steps : i / steps;
        slider.value = String(Math.round(share * slider.max));
        slider.dispatchEvent(new InputEvent("input"));
        return i < steps;
      });
    },
  };
})();
