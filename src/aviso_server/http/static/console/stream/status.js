// How a stream is doing, in words and as a colour.

/** @typedef {"idle" | "busy" | "good" | "bad"} Kind */

/** @type {Record<string, [Kind, string]>} */
const WORDS = {
  connecting: ["busy", "Connecting …"],
  history: ["busy", "Reading history …"],
  live: ["good", "Live"],
  unauthorized: ["bad", "Sign in to go on"],
  ended: ["idle", "Complete"],
  failed: ["bad", "Refused"],
};

/** @param {import("./follow.js").State} state @returns {[Kind, string]} kind and words */
export function statusText(state) {
  if (state.phase !== "waiting") return WORDS[state.phase];
  const left = Math.max(0, Math.ceil(((state.retryAt ?? 0) - Date.now()) / 1000));
  return [
    "bad",
    left > 1 ? `Connection lost, next try in ${left} s` : "Connection lost, trying again",
  ];
}
