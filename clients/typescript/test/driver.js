/** Drives the client for the tests of all clients: commands as lines of JSON in, one answer for each out. */

import { once } from "node:events";
import { createInterface } from "node:readline";

import { connect } from "../src/index.js";
import { HookRegistry } from "../src/ethos.js";
import { formatHookOutcomeMessage, Hooks, loadHooks } from "../src/reasonix.js";

const PATIENCE = 15000;
/** @type {any} */
let session = null;
/** @type {any} */
let adapter = null;
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
  async open({ path, liveness, dialect, require, daemon_uid: daemonUid }) {
    await session?.close();
    [calls, news, session] = [[], [], null];
    session = await connect({ path, liveness, dialect, require, daemonUid, host: "conformance" });
    adapter = dialect === "ethos" ? new HookRegistry(session) : dialect === "reasonix" ? new Hooks(session) : null;
    session.onAnnouncement((/** @type {any} */ one) => news.push(one));
    return { connected: session.isConnected, session_id: session.sessionId, child_token: session.childToken };
  },
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
  load: ({ places }) => loadHooks(places),
  format: ({ outcome }) => ({ result: formatHookOutcomeMessage(outcome) }),
  // Functions arrive as what they answer: the adapters' own calls, one for one.
  async native({ call, arguments: given, handler }) {
    const own = handler === undefined ? [] : [async () => (handler.raise ? fail(handler.raise) : handler.answer)];
    const [first, ...rest] = given;
    const result = await adapter[call](first, ...own, ...rest);
    return { result: typeof result === "function" ? "a function" : (result ?? null) };
  },
};

/** @param {string} text */
function fail(text) {
  throw new Error(text);
}

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
