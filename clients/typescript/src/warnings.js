"use strict";

/** Says what nobody is told otherwise, by `process.emitWarning`: on standard error, or to `process.on("warning")`. */

const MOST = 1000; // texts that are remembered

/** @param {string} text */
const warn = (text) => process.emitWarning(text, "HooklatchWarning");

/** Says each text once, for what would be said again with each fire. */
class Warnings {
  /** @type {Set<string>} */
  #known = new Set();

  /** @param {string} text */
  warn(text) {
    if (this.#known.has(text)) return;
    if (this.#known.size >= MOST) this.#known.clear();
    this.#known.add(text);
    warn(text);
  }
}

module.exports = { warn, Warnings };
