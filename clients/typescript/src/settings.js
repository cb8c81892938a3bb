"use strict";

/**
 * Settings files: their bytes go to the daemon, which reads them as it reads its own. Knows no key of theirs.
 *
 * A file that is not there holds no hooks. One that is there and cannot be read, or that nobody was asked about, may have
 * held any: it is a hook that refuses wherever a hook could have.
 */

const { constants, lstatSync, statSync } = require("node:fs");
const { open } = require("node:fs/promises");
const { dirname } = require("node:path");

const { isObject } = require("./table.js");
const { warn } = require("./warnings.js");

const LARGEST = 2 ** 20; // bytes; the daemon takes fewer

/**
 * @typedef {{ scope: string, source: string }} Place
 * @typedef {import("../types/reasonix.js").ResolvedHook} ResolvedHook
 */

/**
 * Return the hooks of a settings file, as the daemon behind a session reads them.
 *
 * @param {import("../types/index.js").Session} session
 * @param {Place} place
 * @returns {Promise<ResolvedHook[]>}
 */
async function read(session, { scope, source }) {
  try {
    const bytes = await bytesOf(source);
    if (bytes === null) return [];
    const answer = await session.request("settings", { source, data: bytes.toString("base64"), scope });
    if (!isObject(answer) || !Array.isArray(answer.hooks) || !answer.hooks.every(isObject)) {
      throw new Error("the daemon's answer is no list of hooks");
    }
    for (const { place, line, text, red } of answer.notes ?? []) {
      if (red) warn(place ? `${source}: ${place} (line ${line}): ${text}` : text);
    }
    return answer.hooks.map((/** @type {any} */ hook) => ({ ...hook, command: lineOf(hook), scope, source }));
  } catch (error) {
    const problem = `${source} could not be read: ${error instanceof Error ? error.message : error}`;
    warn(problem);
    return [{ event: "*", command: "", problem, scope, source }];
  }
}

/**
 * Return a hook's command line for people; empty where there is nothing to run.
 *
 * @param {Record<string, any>} hook
 */
const lineOf = ({ command, argv }) => command ?? (Array.isArray(argv) ? argv.join(" ") : "");

/**
 * Return what is in a file, or null if it is not there.
 *
 * @param {string} path
 */
async function bytesOf(path) {
  let file;
  try {
    // Nothing is waited for: what has no writer yet, a FIFO say, is no settings file.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT" && isAbsent(path)) return null;
    throw error;
  }
  try {
    const status = await file.stat();
    if (!status.isFile()) throw new Error("it is no regular file");
    if (status.size > LARGEST) throw new Error(`it has more than ${LARGEST} bytes`);
    const bytes = await file.readFile();
    if (bytes.length > LARGEST) throw new Error(`it has more than ${LARGEST} bytes`);
    return bytes;
  } finally {
    await file.close();
  }
}

/**
 * Return whether there is nothing at a path; a link to nothing is something, also further up.
 *
 * @param {string} path
 */
function isAbsent(path) {
  for (let at = path; ; at = dirname(at)) {
    if (lstatSync(at, { throwIfNoEntry: false }))
      return statSync(at, { throwIfNoEntry: false }) !== undefined && at !== path;
    if (at === dirname(at)) return true;
  }
}

module.exports = { read };
