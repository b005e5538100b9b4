// One field of a form: its label, what it is for, its controls, and what is wrong with it.

import { h, uid } from "../dom.js";

/**
 * The frame around the controls of a field.
 *
 * The label belongs to the control with the id `frame.id`; a field of several controls is a group.
 * @param {{name: string, description?: string, required?: boolean}} field
 * @param {{group?: boolean}} [options]
 */
export function frame(field, { group = false } = {}) {
  const id = uid("field");
  const problem = h("p", { class: "problem", id: `${id}-problem`, role: "alert", hidden: true });
  const label = group
    ? h("span", { class: "label", id: `${id}-label` }, field.name)
    : h("label", { class: "label", htmlFor: id }, field.name);
  const head = h(
    "div",
    { class: "field-head" },
    label,
    field.required && h("span", { class: "must" }, "required"),
    field.description && h("span", { class: "hint", id: `${id}-hint` }, field.description),
  );
  const element = h("div", { class: "field", dataset: { field: field.name } }, head);
  if (group) {
    element.setAttribute("role", "group");
    element.setAttribute("aria-labelledby", `${id}-label`);
  }
  return {
    id,
    element,
    head,
    /** Put in what is filled in. @param {HTMLElement[]} controls */
    hold(...controls) {
      element.append(...controls, problem);
      for (const control of controls) describe(control, field, id);
    },
    /** Say what is wrong; an empty text takes it back. @param {string} text */
    complain(text) {
      problem.textContent = text;
      problem.hidden = !text;
      element.classList.toggle("wrong", Boolean(text));
      for (const control of element.querySelectorAll("input, select, textarea")) {
        control.setAttribute("aria-invalid", text ? "true" : "false");
      }
    },
  };
}

/** @param {HTMLElement} control @param {{description?: string}} field @param {string} id */
function describe(control, field, id) {
  const hints = [`${id}-problem`];
  if (field.description) hints.unshift(`${id}-hint`);
  control.setAttribute("aria-describedby", hints.join(" "));
}

/** How finely a slider divides its range. */
const STEPS = 500;

/**
 * Two sliders on one track, for the ends of a range; an end that is not moved says nothing.
 * @param {{range: [number, number], whole: boolean, label: string,
 *   changed: (lower: string, upper: string) => void}} options
 */
export function rangeSlider({ range: [low, high], whole, label, changed }) {
  const step = (high - low) / STEPS;
  /** @param {number} value @param {string} which */
  const make = (value, which) =>
    h("input", {
      type: "range",
      min: low,
      max: high,
      step: whole ? Math.max(1, Math.floor(step)) : step,
      value,
      "aria-label": `${label}, ${which}`,
      on: { input: () => moved(which) },
    });
  const lower = make(low, "lowest");
  const upper = make(high, "highest");
  const element = h("div", { class: "slider" }, lower, upper);

  /** @param {string} which */
  function moved(which) {
    if (Number(lower.value) > Number(upper.value)) {
      if (which === "lowest") lower.value = upper.value;
      else upper.value = lower.value;
    }
    paint();
    const [from, to] = [Number(lower.value), Number(upper.value)];
    changed(from > low ? short(from) : "", to < high ? short(to) : "");
  }

  function paint() {
    /** @param {HTMLInputElement} end */
    const share = (end) => `${((Number(end.value) - low) / (high - low || 1)) * 100}%`;
    element.style.setProperty("--low", share(lower));
    element.style.setProperty("--high", share(upper));
  }

  paint();
  return {
    element,
    /** @param {string} from @param {string} to an empty text is the end of the range */
    set(from, to) {
      lower.value = from || String(low);
      upper.value = to || String(high);
      paint();
    },
  };
}

/** @param {number} value */
function short(value) {
  return String(Number(value.toPrecision(6)));
}
