"use strict";

/** What a session says of itself when it gets a link. */

const { version } = require("../package.json");
const { DaemonUnreachableError } = require("./errors.js");
const { encodePlain } = require("./plain.js");

const PROTOCOL = 1;

/**
 * Return the params of `hello`, as JSON texts by key.
 *
 * @param {import("../types/index.js").Options} options
 * @param {{ sessionId: string | null, resumeToken: string | null, hooks: Record<string, any>[] }} known
 */
function helloOf(options, { sessionId, resumeToken, hooks }) {
  const { dialect, emits, host, personality, plugins, requireHandlers, parent, cwd, name } = options;
  if (parent && (parent.sessionId == null || parent.childToken == null)) {
    // It may be welcomed later; until then its gates would be missing.
    throw new DaemonUnreachableError("no daemon has welcomed the session that started this one");
  }
  const session = {
    id: sessionId ?? undefined,
    resume_token: resumeToken ?? undefined,
    parent_session_id: parent?.sessionId ?? undefined,
    parent_token: parent?.childToken ?? undefined,
    cwd: cwd ?? process.cwd(),
    host,
    personality,
    plugins,
    require_handlers: requireHandlers,
    // Each for itself: one that a changed configuration has no event for must not keep the session away.
    ...(hooks.length && { hooks, each: true }),
  };
  const client = { name: name ?? "hooklatch-node", version };
  const params = { protocol: PROTOCOL, client, session, dialect, emits };
  const given = Object.entries(params).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([key, value]) => [key, encodePlain(value, key)]));
}

/**
 * Return the session that started this process, as its HOOKLATCH_PARENT names it. Throws if it names none.
 *
 * @param {string | undefined} text
 */
function parentOf(text) {
  if (!text) return null;
  const [childToken, sessionId] = text.split(/ (.*)/s);
  if (childToken && sessionId) return { sessionId, childToken };
  throw new TypeError("HOOKLATCH_PARENT is a child token, a space and a session's id; unset it, or pass a parent");
}

module.exports = { helloOf, parentOf, PROTOCOL };
