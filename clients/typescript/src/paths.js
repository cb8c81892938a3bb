"use strict";

/** The daemon's sockets to try, in turn, as the daemon and every other client choose them. */

const { statSync } = require("node:fs");
const { homedir } = require("node:os");
const { resolve } = require("node:path");

const NAME = "agent.sock";

/**
 * A path or a folder that was named is the only one: falling back from it could reach another daemon, with other hooks.
 *
 * @param {string | undefined} path
 * @param {string | undefined} runtimeDir
 * @param {NodeJS.ProcessEnv} environ
 * @returns {string[]}
 */
function candidates(path, runtimeDir, environ = process.env) {
  if (path) return [resolve(path)];
  const named = runtimeDir || environ.HOOKLATCH_RUNTIME_DIR;
  if (named) return [resolve(named, NAME)];
  const session = environ.XDG_RUNTIME_DIR ?? "";
  const home = environ.HOME?.startsWith("/") ? environ.HOME : homedir();
  const found = [resolve(home, ".local/state/hooklatch/run", NAME)];
  return isPrivate(session) ? [resolve(session, "hooklatch", NAME), ...found] : found;
}

/** @param {string} folder */
function isPrivate(folder) {
  if (!folder.startsWith("/")) return false;
  const status = statSync(folder, { throwIfNoEntry: false });
  return !!status?.isDirectory() && status.uid === process.getuid?.() && (status.mode & 0o777) === 0o700;
}

module.exports = { candidates };
