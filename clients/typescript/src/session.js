/**
 * A session: one live agent run, across the connections that it takes.
 *
 * no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off
 *
 * A request that finds the link just lost waits for the first attempt to get another; after that attempt, and until a
 * later one succeeds, every request fails at once.
 */

import { EventEmitter, on } from "node:events";

import { decideLocally, readDecision } from "./decisions.js";
import { DaemonUnreachableError, HooklatchError, RequestFailedError, UnreadableAnswerError } from "./errors.js";
import { Link } from "./link.js";
import { candidates } from "./paths.js";
import { faultOf, isObject } from "./table.js";
import { encodePlain, InvalidCallError } from "./wire.js";

const PROTOCOL = 1;
const VERSION = "0.1.0";
const FAREWELL = 1000; // milliseconds that the end of a session waits for the daemon to confirm it
const FIRST_RETRY = 50;
const LAST_RETRY = 5000;
const RESERVED = 4; // of the requests that may be in flight: a ping must never wait behind fires
const MAX_PAYLOAD = 8 * 2 ** 20;

/**
 * Open a session. Without a daemon it opens too: its gates deny, and it connects when there is one.
 *
 * @param {import("../types/index.js").Options} options
 */
export async function connect(options = {}) {
  const session = new Session(options);
  await session.open();
  return session;
}

export class Session {
  #options;
  #paths;
  /** @type {Link | null} */
  #link = null;
  /** @type {Link | null} */
  #newest = null;
  #settled = Promise.resolve();
  #problem = "no attempt to connect was made yet";
  #isClosed = false;
  /** @type {Map<string, { wire: Record<string, any>, serve?: Function }>} */
  #hooks = new Map();
  /** @type {Set<string>} */
  #topics = new Set();
  #emitter = new EventEmitter();
  #attempts = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #retry;
  #lastServed = 0;
  #payloadLimit = MAX_PAYLOAD;
  /** @type {string | null} */
  #resumeToken = null;

  /** @type {string | null} */
  sessionId;
  /** @type {string | null} */
  childToken = null;
  /** @type {number | null} */
  revision = null;

  /** @param {import("../types/index.js").Options} options */
  constructor(options = {}) {
    this.#options = options;
    this.#paths = candidates(options.path, options.runtimeDir);
    this.#resumeToken = options.resumeToken ?? null;
    this.sessionId = options.sessionId ?? null;
  }

  get isConnected() {
    return this.#link !== null;
  }

  get isClosed() {
    return this.#isClosed;
  }

  /** Make the first attempt; `connect` does it. Throws if the daemon refuses the session, or is required and missing. */
  async open() {
    try {
      await this.#attempt();
    } catch (error) {
      const refused = error instanceof RequestFailedError && !["draining", "overload"].includes(error.label);
      if (refused || this.#options.require) {
        await this.close();
        throw error;
      }
      this.#tryLater();
    }
  }

  /**
   * Fire an event and return the decision. Never throws: without a usable answer a gate denies, all else passes.
   *
   * @param {string} event
   * @param {Record<string, unknown>} payload
   * @param {import("../types/index.js").FireOptions} options
   * @returns {Promise<import("../types/index.js").Decision>}
   */
  async fire(event, payload = {}, options = {}) {
    let decision;
    try {
      const params = this.#fireParams(event, payload, options);
      decision = readDecision(await this.#send("fire", params), event, this.#options.dialect !== undefined);
    } catch (error) {
      decision = decideLocally(event, error);
    }
    return /** @type {any} */ (decision);
  }

  /**
   * Serve a hook: `hook(payload, call)` returns a verdict, or nothing for no opinion. What it throws denies on a gate.
   *
   * @param {string} event
   * @param {import("../types/index.js").ServedHook} hook
   * @param {Record<string, unknown>} options
   * @returns {Promise<string>} its id
   */
  async serve(event, hook, options = {}) {
    const [id] = await this.register([{ id: `served-${++this.#lastServed}`, event, served: true, ...options }], [hook]);
    return id;
  }

  /**
   * Register hooks, all or none, as the protocol's `register` takes them; `functions` are those of served ones.
   *
   * @param {Record<string, any>[]} definitions
   * @param {(import("../types/index.js").ServedHook | undefined)[]} functions
   * @returns {Promise<string[]>} their ids
   */
  async register(definitions, functions = []) {
    const replaced = new Map(this.#hooks);
    // First: the daemon may call a hook before we read that it is active.
    definitions.forEach((wire, at) => this.#keep(wire.id ?? wire.name, wire, functions[at]));
    try {
      const answer = await this.request("register", { hooks: definitions });
      const ids = isObject(answer) && Array.isArray(answer.ids) ? answer.ids.map(String) : [];
      if (ids.length < definitions.length) throw new UnreadableAnswerError("the answer is not a list of hook ids");
      definitions.forEach((wire, at) => this.#keep(ids[at], wire, functions[at]));
      return ids;
    } catch (error) {
      for (const { id, name } of definitions) {
        const before = replaced.get(id ?? name);
        if (before) this.#hooks.set(id ?? name, before);
        else this.#hooks.delete(id ?? name);
      }
      throw error;
    }
  }

  /** @param {string} id */
  async unregister(id) {
    await this.request("unregister", { id });
    this.#hooks.delete(id);
  }

  /**
   * Make any request of the protocol. Throws if it fails.
   *
   * @param {string} method
   * @param {Record<string, unknown>} params
   * @returns {Promise<any>}
   */
  async request(method, params = {}) {
    const given = Object.entries(params).filter(([, value]) => value !== undefined);
    return this.#send(method, Object.fromEntries(given.map(([key, value]) => [key, encodePlain(value, key)])));
  }

  /**
   * Subscribe to announcements; once this returns, none is missed.
   *
   * @param {...string} topics
   * @returns {Promise<number>} the revision from which on
   */
  async subscribe(...topics) {
    for (const topic of topics.length ? topics : ["registry"]) this.#topics.add(topic);
    const answer = await this.request("subscribe", { topics: [...this.#topics].sort() });
    return answer.revision;
  }

  /**
   * Call `callback` with each announcement; returns what ends that.
   *
   * @param {(announcement: import("../types/index.js").Announcement) => void} callback
   */
  onAnnouncement(callback) {
    this.#emitter.on("announcement", callback);
    return () => void this.#emitter.off("announcement", callback);
  }

  /** The announcements from now on: `for await (const announcement of session.announcements())`. */
  async *announcements() {
    const ending = new AbortController();
    this.#emitter.once("closed", () => ending.abort());
    try {
      for await (const [announcement] of on(this.#emitter, "announcement", { signal: ending.signal })) {
        yield announcement;
      }
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    }
  }

  /** End the session in the daemon, and stop for good. */
  async close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#retry);
    if (this.#link) {
      const said = this.#link.request("session.close", {}).catch(() => undefined);
      /** @type {NodeJS.Timeout | undefined} */
      let patience;
      const late = new Promise((resolve) => (patience = setTimeout(resolve, FAREWELL)));
      await Promise.race([said, late]);
      clearTimeout(patience);
    }
    this.#newest?.end(new DaemonUnreachableError("the session was closed"));
    this.#emitter.emit("closed");
  }

  async [Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }

  /**
   * @param {string} event
   * @param {Record<string, unknown>} payload
   * @param {import("../types/index.js").FireOptions} options
   */
  #fireParams(event, payload, { callId, timeout, context, envelope, plugins }) {
    const params = { event: encodePlain(event, "event"), payload: encodePlain(payload, "payload") };
    const isCut = Buffer.byteLength(params.payload) > this.#payloadLimit;
    if (isCut) params.payload = "{}"; // the daemon is told that it was too long, and refuses
    const others = { call_id: callId, timeout, context, envelope, plugins, truncated: isCut || undefined };
    for (const [key, value] of Object.entries(others)) {
      if (value !== undefined) Object.assign(params, { [key]: encodePlain(value, key) });
    }
    return params;
  }

  /**
   * @param {string} method
   * @param {Record<string, string>} params
   */
  async #send(method, params) {
    if (!this.#link) await this.#settled;
    if (this.#isClosed) throw new DaemonUnreachableError("the session is closed; open another one");
    if (!this.#link) throw new DaemonUnreachableError(this.#problem);
    return this.#link.request(method, params);
  }

  async #attempt() {
    try {
      const owner = {
        call: (/** @type {any} */ params) => this.#call(params),
        announce: (/** @type {any} */ params) => this.#announce(params),
        ended: () => this.#lost(link),
      };
      /** @type {Link | null} */
      let link = null;
      const liveness = { interval: 1, misses: 5, ...this.#options.liveness };
      link = await Link.open(this.#paths, this.#options.daemonUid, liveness, owner);
      this.#newest = link;
      if (this.#isClosed) link.end(new DaemonUnreachableError("the session was closed"));
      try {
        await this.#introduce(link);
      } catch (error) {
        link.end(new DaemonUnreachableError(String(error)));
        throw error;
      }
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error);
      throw error;
    }
  }

  /** @param {Link} link */
  async #introduce(link) {
    const welcome = await link.request("hello", this.#hello());
    if (!isObject(welcome) || welcome.protocol !== PROTOCOL) {
      throw new UnreadableAnswerError(`the daemon speaks protocol ${welcome?.protocol}, this client ${PROTOCOL}`);
    }
    this.sessionId = welcome.session_id ?? this.sessionId;
    this.#resumeToken = welcome.resume_token ?? this.#resumeToken;
    this.childToken = welcome.child_token ?? null;
    this.#payloadLimit = welcome.limits?.payload_bytes ?? MAX_PAYLOAD;
    link.allow(Math.max(1, (welcome.limits?.in_flight ?? 64) - RESERVED));
    let revision = welcome.revision ?? null;
    if (this.#topics.size) {
      const topics = encodePlain([...this.#topics].sort(), "topics");
      revision = (await link.request("subscribe", { topics })).revision;
    }
    if (link.failure) throw link.failure;
    this.#link = link;
    this.#attempts = 0;
    this.#heardOf(revision);
  }

  #hello() {
    const { dialect, emits, host, personality, plugins, requireHandlers, parent, cwd, name } = this.#options;
    const [token, parentId] = process.env.HOOKLATCH_PARENT?.split(/ (.*)/s) ?? [];
    const above = parent === undefined && parentId ? { sessionId: parentId, childToken: token } : parent;
    const session = {
      id: this.sessionId ?? undefined,
      resume_token: this.#resumeToken ?? undefined,
      parent_session_id: above?.sessionId ?? undefined,
      parent_token: above?.childToken ?? undefined,
      cwd: cwd ?? process.cwd(),
      host,
      personality,
      plugins,
      require_handlers: requireHandlers,
      hooks: this.#hooks.size ? [...this.#hooks.values()].map(({ wire }) => wire) : undefined,
    };
    const client = { name: name ?? "hooklatch-node", version: VERSION };
    const params = { protocol: PROTOCOL, client, session, dialect, emits };
    const given = Object.entries(params).filter(([, value]) => value !== undefined);
    return Object.fromEntries(given.map(([key, value]) => [key, encodePlain(value, key)]));
  }

  /** @param {number | null} revision */
  #heardOf(revision) {
    const before = this.revision;
    this.revision = revision;
    if (before === null || before === revision) return;
    this.revision = Math.max(before, revision ?? before); // an announcement may have overtaken the answer
    this.#emitter.emit("announcement", { topic: "registry", resync: this.revision });
  }

  /** @param {Link | null} link */
  #lost(link) {
    if (link === null || this.#link !== link) return;
    this.#link = null;
    this.#problem = link.failure?.message ?? "the daemon hung up";
    this.#settled = new Promise((resolve) => this.#tryLater(resolve));
  }

  #tryLater(resolve = () => {}) {
    if (this.#isClosed) return resolve();
    const longest = Math.min(LAST_RETRY, FIRST_RETRY * 2 ** Math.min(this.#attempts++, 16));
    const again = () => this.#attempt().then(resolve, () => (resolve(), this.#tryLater()));
    this.#retry = setTimeout(again, longest * (1 - Math.random() / 2));
    this.#retry.unref();
  }

  /** @param {any} params */
  #announce(params) {
    if (!isObject(params) || typeof params.topic !== "string") {
      throw new UnreadableAnswerError("an announcement names no topic");
    }
    const problem = "decision" in params ? faultOf(params.decision) : "";
    if (problem) throw new UnreadableAnswerError(`the announced decision is not valid: ${problem}`);
    const current = params.resync ?? params.revision;
    if (Number.isInteger(current)) this.revision = current;
    this.#emitter.emit("announcement", params);
  }

  /** @param {any} params */
  async #call(params) {
    const isCall = isObject(params) && typeof params.hook === "string" && typeof params.event === "string";
    if (!isCall || !isObject(params.payload)) {
      throw new InvalidCallError(-32602, "invalid_params", "a call names a hook and an event, and has a payload");
    }
    const hook = this.#hooks.get(params.hook)?.serve;
    if (!hook) throw new HooklatchError(`this client serves no hook ${params.hook}`);
    return hook(params.payload, params);
  }

  /**
   * @param {string | undefined} id
   * @param {Record<string, any>} wire
   * @param {Function | undefined} serve
   */
  #keep(id, wire, serve) {
    if (id !== undefined) this.#hooks.set(id, { wire: "name" in wire ? wire : { ...wire, id }, serve });
  }
}
