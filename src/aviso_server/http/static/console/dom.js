// Making elements. Text only ever goes in as text: there is no way from here to markup, so whatever
// a producer puts into a notification stays what it is. The page's security policy forbids the
// other ways (innerHTML and the like) altogether.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with properties, listeners and children.
 *
 * `class`, `dataset`, `on` and attributes with a dash or of SVG are set as such, `false` and `null`
 * leave out; everything else is a property of the element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [props]
 * @param {...any} children nodes and texts, nested as it comes; null and false are left out
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) assign(element, name, value);
  element.append(...flat(children));
  return element;
}

/** @param {HTMLElement} element @param {string} name @param {any} value */
function assign(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "class") element.className = value;
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "on") listen(element, value);
  else if (name === "role" || name === "list" || name === "for" || name.includes("-")) {
    element.setAttribute(name, String(value));
  } else Object.assign(element, { [name]: value });
}

/** @param {HTMLElement} element @param {Record<string, (event: any) => void>} listeners */
function listen(element, listeners) {
  for (const [event, listener] of Object.entries(listeners)) {
    element.addEventListener(event, listener);
  }
}

/** @param {any[]} children @returns {(Node | string)[]} */
function flat(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/**
 * An SVG element; attributes only.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number>} attributes
 * @param {...Node} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Put these in place of everything an element has.
 *  @param {Element} element @param {...any} children */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

let made = 0;

/** A fresh id, for labels and descriptions. @param {string} prefix */
export function uid(prefix) {
  made += 1;
  return `${prefix}-${made}`;
}

/** Copy text to the clipboard and say so on the button for a moment.
 *  @param {string} text @param {HTMLElement} button */
export async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => (button.textContent = before), 1500);
}
