"use strict";

/** Says what nobody is told otherwise, by `process.emitWarning`: on standard error, or to `process.on("warning")`. */

const MOST = 1000; // texts that are remembered
/** @type {Set<string>} */
const said = new Set();

/** Say it, once. */
function warn(/** @type {string} */ text) {
  if (said.has(text)) return;
  if (said.size >= MOST) said.clear();
  said.add(text);
  process.emitWarning(text, "HooklatchWarning");
}

module.exports = { warn };
