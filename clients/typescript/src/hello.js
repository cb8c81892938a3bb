"use strict";

/** What a session says of itself when it gets a link. */

const { version } = require("../package.json");
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
  const [token, parentId] = process.env.HOOKLATCH_PARENT?.split(/ (.*)/s) ?? [];
  const above = parent === undefined && parentId ? { sessionId: parentId, childToken: token } : parent;
  const session = {
    id: sessionId ?? undefined,
    resume_token: resumeToken ?? undefined,
    parent_session_id: above?.sessionId ?? undefined,
    parent_token: above?.childToken ?? undefined,
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

module.exports = { helloOf, PROTOCOL };
