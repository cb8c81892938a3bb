"use strict";

/**
 * A session: one live agent run, across the connections that it takes.
 *
 * Knows hooks, fires and announcements; that there is a link, and when, is the reconnector's.
 */

const { EventEmitter, on } = require("node:events");

const { HooklatchError, RequestFailedError, UnreadableAnswerError } = require("./errors.js");
const { Fires } = require("./fires.js");
const { helloOf, parentOf, PROTOCOL } = require("./hello.js");
const { candidates } = require("./paths.js");
const { encodePlain } = require("./plain.js");
const { Reconnector } = require("./reconnector.js");
const { faultOf, isObject, refusesWhenUnknown } = require("./table.js");
const { warn } = require("./warnings.js");
const { InvalidCallError } = require("./wire.js");

/** @type {typeof Symbol.asyncDispose} */
const DISPOSE = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose"); // Node 18 had none at first
const FIRE = Symbol("fire"); // for the adapters of this package, which know of their events what a session cannot
const FAREWELL = 1000; // milliseconds that the end of a session waits for the daemon to confirm it
const MOST_LEFT = 1000; // hooks that were taken off, and are still known
const RESERVED = 4; // of the requests that may be in flight: a ping must never wait behind fires
const MOST_SERVED = 8 * 2 ** 20; // bytes in flight, each of which comes back once for each hook that is called with it
const MAX_IN_FLIGHT = { requests: 64, bytes: 24 * 2 ** 20 }; // of a daemon that does not say

/**
 * Open a session. Without a daemon it opens too: its gates deny, and it connects when there is one.
 *
 * @param {import("../types/index.js").Options} options
 */
async function connect(options = {}) {
  const session = new Session(options);
  await session.open();
  return session;
}

class Session {
  #options;
  /** @type {Reconnector} */
  #line;
  /** @type {Fires} */
  #fires;
  #isClosed = false;
  /** @type {Map<string, { wire: Record<string, any>, serve: Function | undefined }>} */
  #hooks = new Map();
  /** @type {Map<string, Function>} */
  #left = new Map(); // those that were taken off: fires that began with them may still call them
  /** @type {Set<string>} */
  #topics = new Set();
  #emitter = new EventEmitter();
  #lastServed = 0;
  #most = MAX_IN_FLIGHT;
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
    const { parent = parentOf(process.env.HOOKLATCH_PARENT) } = options;
    this.#options = { ...options, parent };
    this.#line = new Reconnector(
      candidates(options.path, options.runtimeDir),
      options.daemonUid,
      { interval: options.liveness?.interval ?? 1, misses: options.liveness?.misses ?? 5 },
      {
        introduce: (link) => this.#introduce(link),
        call: (params) => this.#call(params),
        announce: (params) => this.#announce(params),
        lost: (failure) => void this.#emitter.emit("lost", failure),
      },
    );
    this.#fires = new Fires((params) => this.#line.request("fire", params), options.dialect !== undefined);
    this.#resumeToken = options.resumeToken ?? null;
    this.sessionId = options.sessionId ?? null;
  }

  get isConnected() {
    return this.#line.link !== null;
  }

  get isClosed() {
    return this.#isClosed;
  }

  /** Make the first attempt; `connect` does it. Throws if the daemon refuses the session, or is required and missing. */
  async open() {
    try {
      await this.#line.attempt();
    } catch (error) {
      const refused = error instanceof RequestFailedError && !["draining", "overload"].includes(error.label);
      if (refused || this.#options.require) {
        await this.close();
        throw error;
      }
      this.#line.tryLater();
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
    const canRefuse = refusesWhenUnknown(event);
    const kind = { canRefuse, keepsTerms: !canRefuse && this.#hooks.size > 0 };
    const { decision, terms } = await this[FIRE](event, payload, options, kind);
    return terms?.wereShown && !canRefuse ? inTerms(decision, terms) : decision;
  }

  /**
   * Fire an event of a kind that the caller knows.
   *
   * @param {string} event
   * @param {Record<string, any>} payload
   * @param {import("../types/index.js").FireOptions} options
   * @param {import("./fires.js").Kind} kind
   */
  [FIRE](event, payload, options, kind) {
    return this.#fires.fire(event, payload, options, kind);
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
    const { ids } = await this.#register({ hooks: definitions }, functions);
    return ids.map(String);
  }

  /**
   * Register hooks one by one: a definition that is refused stands in where its hook would have decided, and refuses there.
   *
   * @param {Record<string, any>[]} definitions
   * @param {(import("../types/index.js").ServedHook | undefined)[]} functions
   * @returns {Promise<import("../types/index.js").Registered>}
   */
  async registerEach(definitions, functions = []) {
    return this.#register({ hooks: definitions, each: true }, functions);
  }

  /**
   * @param {{ hooks: Record<string, any>[], each?: boolean }} params
   * @param {(import("../types/index.js").ServedHook | undefined)[]} functions
   */
  async #register(params, functions) {
    const definitions = params.hooks;
    const replaced = new Map(this.#hooks);
    // First: the daemon may call a hook before we read that it is active.
    definitions.forEach((wire, at) => this.#keep(wire.id ?? wire.name, wire, functions[at]));
    this.#allow(this.#line.link);
    try {
      const { ids, refused = [] } = isRegistered(await this.request("register", params));
      if (ids.length < definitions.length) throw new UnreadableAnswerError("the answer is not a list of hook ids");
      definitions.forEach((wire, at) => {
        if (ids[at] === null) this.#hooks.delete(wire.id ?? wire.name);
        else this.#keep(ids[at], wire, functions[at]);
      });
      return { ids, refused };
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
    const serve = this.#hooks.get(id)?.serve;
    this.#hooks.delete(id);
    if (serve) this.#left.set(id, serve);
    if (this.#left.size > MOST_LEFT) this.#left.delete(this.#left.keys().next().value ?? "");
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
    return this.#line.request(method, Object.fromEntries(given.map(([key, value]) => [key, encodePlain(value, key)])));
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

  /**
   * Call `listener` on each of these: "connected"; "lost", with the error; "closed"; "announcement", with what it says.
   *
   * @param {string} event
   * @param {(...args: any[]) => void} listener
   */
  on(event, listener) {
    this.#emitter.on(event, listener);
    return this;
  }

  /**
   * @param {string} event
   * @param {(...args: any[]) => void} listener
   */
  once(event, listener) {
    this.#emitter.once(event, listener);
    return this;
  }

  /**
   * @param {string} event
   * @param {(...args: any[]) => void} listener
   */
  off(event, listener) {
    this.#emitter.off(event, listener);
    return this;
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
    this.#line.stop();
    if (this.#line.link) {
      const said = this.#line.link.request("session.close", {}).catch(() => undefined);
      /** @type {NodeJS.Timeout | undefined} */
      let patience;
      const late = new Promise((resolve) => (patience = setTimeout(resolve, FAREWELL)));
      await Promise.race([said, late]);
      clearTimeout(patience);
    }
    this.#line.end();
    this.#emitter.emit("closed");
  }

  async [DISPOSE]() {
    await this.close();
  }

  /** @param {import("./link.js").Link} link */
  async #introduce(link) {
    const hooks = [...this.#hooks.values()].map(({ wire }) => wire);
    const known = { sessionId: this.sessionId, resumeToken: this.#resumeToken, hooks };
    const welcome = await link.request("hello", helloOf(this.#options, known));
    if (!isObject(welcome) || welcome.protocol !== PROTOCOL) {
      throw new UnreadableAnswerError(`the daemon speaks protocol ${welcome?.protocol}, this client ${PROTOCOL}`);
    }
    this.sessionId = welcome.session_id ?? this.sessionId;
    this.#resumeToken = welcome.resume_token ?? this.#resumeToken;
    this.childToken = welcome.child_token ?? null;
    this.#fires.limit = welcome.limits?.payload_bytes ?? this.#fires.limit;
    const { in_flight: requests = MAX_IN_FLIGHT.requests, in_flight_bytes: bytes = MAX_IN_FLIGHT.bytes } =
      welcome.limits ?? {};
    this.#most = { requests: Math.max(1, requests - RESERVED), bytes };
    this.#allow(link);
    for (const { reason } of welcome.refused ?? []) warn(`a hook was refused when the session was resumed: ${reason}`);
    let revision = welcome.revision ?? null;
    if (this.#topics.size) {
      const topics = encodePlain([...this.#topics].sort(), "topics");
      revision = (await link.request("subscribe", { topics })).revision;
    }
    return () => {
      this.#heardOf(revision);
      this.#emitter.emit("connected");
    };
  }

  /** Allow a link as much as the daemon does; where hooks are served, no more than they can be called with in time. */
  #allow(/** @type {import("./link.js").Link | null} */ link) {
    const serves = [...this.#hooks.values()].some(({ serve }) => serve);
    link?.allow({ ...this.#most, bytes: Math.min(this.#most.bytes, serves ? MOST_SERVED : Infinity) });
  }

  /** @param {number | null} revision */
  #heardOf(revision) {
    const before = this.revision;
    this.revision = revision;
    if (before === null || before === revision) return;
    this.revision = Math.max(before, revision ?? before); // an announcement may have overtaken the answer
    this.#emitter.emit("announcement", { topic: "registry", resync: this.revision });
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
    const hook = this.#hooks.get(params.hook)?.serve ?? this.#left.get(params.hook);
    if (!hook) throw new HooklatchError(`this client serves no hook ${params.hook}`);
    return this.#fires.call(hook, params);
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

/**
 * Return a decision with the very values that hooks of this process gave.
 *
 * @param {any} decision
 * @param {import("./terms.js").Terms} terms
 */
function inTerms(decision, terms) {
  const { patch, value } = decision;
  return decision.with({ patch: patch && terms.native("patch", patch), value: terms.native("value", value) });
}

/** @param {any} answer */
function isRegistered(answer) {
  if (isObject(answer) && Array.isArray(answer.ids)) return answer;
  throw new UnreadableAnswerError("the answer is not a list of hook ids");
}

module.exports = { connect, FIRE, Session };
