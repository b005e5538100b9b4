// Light or dark: the reader's system decides until the reader does.

const KEY = "aviso-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark now. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

/** Take up what was chosen on an earlier visit; tell `changed` of every change.
 *  @param {() => void} changed */
export function watchTheme(changed) {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  system.addEventListener("change", changed);
  return () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem(KEY, next);
    changed();
  };
}
