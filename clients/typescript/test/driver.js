"use strict";

/**
 * Drives the client for the tests of all clients: commands as lines of JSON in, one answer for each out.
 *
 * The values of `native` commands, and what they report, have tags for what JSON cannot say (terms.js).
 */

const { once } = require("node:events");
const { createInterface } = require("node:readline");

const { connect } = require("../src/index.js");
const { HookRegistry } = require("../src/ethos.js");
const { formatHookOutcomeMessage, Hooks } = require("../src/reasonix.js");
const native = require("./native.js");

const PATIENCE = 15000;
/** @type {any} */
let session = null;
/** @type {any} */
let adapter = null;
/** @type {any} */
let opened = {};
/** @type {any[]} */
let calls = [];
/** @type {any[]} */
let news = [];
/** @type {Map<string, Promise<any>>} */
const pending = new Map();

/** @param {() => boolean} isSo */
async function until(isSo) {
  for (const end = Date.now() + PATIENCE; !isSo();) {
    if (Date.now() > end) throw new Error("it did not come to that");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** @param {any} command */
async function fire({ event, payload, call_id: callId, timeout, context, envelope }) {
  const decision = await session.fire(event, payload, { callId, timeout, context, envelope });
  return { ...decision, allowed: decision.allowed, is_local: decision.isLocal };
}

/** @type {Record<string, (command: any) => any>} */
const COMMANDS = {
  async open(command) {
    const { path, liveness, dialect, require, daemon_uid: daemonUid, cwd, ...others } = (opened = command);
    await session?.close();
    [calls, news, session] = [[], [], null];
    const own = { sessionId: others.session_id, host: others.host ?? "conformance", plugins: others.plugins };
    const more = { personality: others.personality, requireHandlers: others.require_handlers };
    session = await connect({ path, liveness, dialect, require, daemonUid, cwd, ...own, ...more });
    adapter = dialect === "ethos" ? new HookRegistry(session) : dialect === "reasonix" ? new Hooks(session) : null;
    native.begin(session, adapter);
    session.onAnnouncement((/** @type {any} */ one) => news.push(one));
    return { connected: session.isConnected, session_id: session.sessionId, child_token: session.childToken };
  },
  reopen: (command) => COMMANDS.open({ ...opened, ...command }),
  fire,
  begin(command) {
    pending.set(command.as, fire(command));
    return {};
  },
  end: ({ as }) => pending.get(as),
  async serve({ event, id, does }) {
    const hook = (/** @type {any} */ payload) => {
      calls.push(payload);
      if ("raise" in does) throw new Error(does.raise);
      return does.answer;
    };
    return { id: await session.serve(event, hook, { id }) };
  },
  async unregister({ id }) {
    await session.unregister(id);
    return {};
  },
  async called({ count }) {
    await until(() => calls.length >= count);
    return calls;
  },
  subscribe: async () => ({ revision: await session.subscribe() }),
  async announcement() {
    await until(() => news.length > 0);
    return news.shift();
  },
  request: async ({ method, params }) => ({ result: await session.request(method, params) }),
  async wait(command) {
    await until(() => session.isConnected === (command.for === "connected"));
    return {};
  },
  async close() {
    await session?.close();
    return {};
  },
  load: ({ places }) => adapter.loadHooks(places),
  format: ({ outcome }) => ({ result: formatHookOutcomeMessage(outcome) }),
  native: (command) => native.run(command),
};

async function main() {
  process.on("warning", (warning) => native.warned(warning));
  const lines = createInterface({ input: process.stdin });
  let turn = Promise.resolve();
  lines.on("line", (line) => {
    turn = turn.then(async () => {
      const command = JSON.parse(line);
      let answer;
      try {
        answer = await COMMANDS[command.do](command);
      } catch (error) {
        answer = { error: String(error), name: /** @type {any} */ (error).label ?? "", allowed: false };
      }
      process.stdout.write(`${JSON.stringify(answer)}\n`);
    });
  });
  await once(lines, "close");
  await turn;
  await session?.close();
  native.end();
}

void main();
