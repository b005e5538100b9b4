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
    /** Put controls between the label and the place for problems. */
    hold(...controls) {
      element.append(...controls, problem);
      for (const control of controls) describe(control, field, id);
    },
    /** Say what is wrong; an empty text takes it back. */
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

function describe(control, field, id) {
  const hints = [`${id}-problem`];
  if (field.description) hints.unshift(`${id}-hint`);
  control.setAttribute("aria-describedby", hints.join(" "));
}

/** Two sliders on one track, for the ends of a range. */
export function rangeSlider({ low, high, step, label, changed }) {
  const make = (value, which) =>
    h("input", {
      type: "range",
      min: low,
      max: high,
      step,
      value,
      "aria-label": `${label}, ${which}`,
      on: { input: () => moved(which) },
    });
  const lower = make(low, "lowest");
  const upper = make(high, "highest");
  const element = h("div", { class: "slider" }, lower, upper);

  function moved(which) {
    if (Number(lower.value) > Number(upper.value)) {
      if (which === "lowest") lower.value = upper.value;
      else upper.value = lower.value;
    }
    paint();
    changed(Number(lower.value), Number(upper.value));
  }

  function paint() {
    const share = (value) => `${((value - low) / (high - low || 1)) * 100}%`;
    element.style.setProperty("--low", share(lower.value));
    element.style.setProperty("--high", share(upper.value));
  }

  paint();
  return {
    element,
    set(from, to) {
      lower.value = String(from ?? low);
      upper.value = String(to ?? high);
      paint();
    },
  };
}
