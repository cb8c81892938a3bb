"use strict";

/**
 * Ethos' hook registry over a hooklatch session: the same methods, so that code written for it moves unchanged.
 *
 * A handler is served by this process and called by the daemon, beside the guards that the operator put there. It gets
 * the values that were fired, and gives back its own. A handler that could not be registered on a gate refuses: nobody
 * may believe in a guard that is not there. Whatever else is lost is said by `process.emitWarning`.
 */

const { DaemonUnreachableError } = require("./errors.js");
const { unlessAborted } = require("./fires.js");
const { isPlain, put } = require("./plain.js");
const { connect, FIRE } = require("./session.js");
const { isObject } = require("./table.js");
const { isStill } = require("./terms.js");
const { Warnings } = require("./warnings.js");

const VOID = "void";
const MODIFYING = "modifying";
const CLAIMING = "claiming";

/** @type {Record<string, [string, string]>} each point's model, and the catalogue's event that it feeds */
const POINTS = Object.setPrototypeOf(
  {
    session_start: [VOID, "session_start"],
    before_llm_call: [VOID, "model_request"],
    after_llm_call: [VOID, "model_response"],
    after_tool_call: [VOID, "post_tool_use"],
    tool_end_with_path: [VOID, "tool_path"],
    agent_done: [VOID, "stop"],
    message_received: [VOID, "message_received"],
    message_sent: [VOID, "message_sent"],
    subagent_spawned: [VOID, "subagent_started"],
    subagent_ended: [VOID, "subagent_stop"],
    before_prompt_build: [MODIFYING, "prompt_build"],
    before_tool_call: [MODIFYING, "pre_tool_use"],
    message_sending: [MODIFYING, "message_send"],
    personality_switched: [MODIFYING, "personality_switch"],
    subagent_spawning: [MODIFYING, "subagent_start"],
    inbound_claim: [CLAIMING, "message_claim"],
    before_dispatch: [CLAIMING, "message_dispatch"],
  },
  null, // "constructor" is no point
);
const OPEN_POINTS = ["before_prompt_build", "message_sending", "personality_switched"];
const EVERY_GATE = "*"; // the event of a hook that stands in at all of them
const REJECTS_BY_CLAIM = ["before_ticket_complete", "before_goal_complete"];

/**
 * @typedef {import("./terms.js").Terms} Terms
 * @typedef {object} Handler
 * @property {string} point
 * @property {string | undefined} plugin
 * @property {() => Promise<void>} register
 * @property {Promise<void>} registered
 * @property {Error | undefined} [failure] why it is not registered
 */

/**
 * Open a session in Ethos' words, and its registry.
 *
 * @param {import("../types/index.js").Options} options
 */
async function openHookRegistry(options = {}) {
  const registry = new HookRegistry(await connect({ ...options, dialect: "ethos" }));
  await registry.refresh();
  return registry;
}

let lastNumber = 0; // of a handler in this process: a session may have two registries

class HookRegistry {
  /** @type {Map<string, Handler>} */
  #handlers = new Map();
  /** @type {WeakMap<object, object>} */
  #results = new WeakMap(); // of each result as it is sent, the one that the handler gave
  /** @type {Set<string> | null} */
  #listened = null; // unknown: who asks before it fires must not skip a gate
  #isFollowing = false;
  #warnings = new Warnings();

  /** @param {import("../types/index.js").Session} session one with the dialect "ethos" */
  constructor(session) {
    this.session = session;
  }

  registerVoid(/** @type {string} */ name, /** @type {any} */ handler, /** @type {any} */ options = {}) {
    if (options.failurePolicy === "fail-closed") {
      throw new TypeError(`${name} cannot refuse, so a failure cannot either; use before_tool_call for a guard`);
    }
    return this.#register(VOID, name, handler, options);
  }

  registerModifying(/** @type {string} */ name, /** @type {any} */ handler, /** @type {any} */ options = {}) {
    return this.#register(MODIFYING, name, handler, options);
  }

  registerClaiming(/** @type {string} */ name, /** @type {any} */ handler, /** @type {any} */ options = {}) {
    return this.#register(CLAIMING, name, handler, options);
  }

  async fireVoid(
    /** @type {string} */ name,
    /** @type {any} */ payload,
    /** @type {any} */ allowedPlugins = undefined,
    /** @type {any} */ options = {},
  ) {
    await this.#fire(name, payload, allowedPlugins, options);
  }

  /** The merged result; a refusal, whoever made it and why, is its `error`. */
  async fireModifying(
    /** @type {string} */ name,
    /** @type {any} */ payload,
    /** @type {any} */ allowedPlugins = undefined,
    /** @type {any} */ options = {},
  ) {
    const { decision, terms, failed } = await this.#fire(name, payload, allowedPlugins, options);
    const rendered = isObject(decision.rendered) ? decision.rendered : null;
    if (OPEN_POINTS.includes(name)) return rendered && decision.allowed ? this.#merged(decision, terms) : {};
    if (failed) return { error: `a handler of ${name} could not be registered: ${failed.message}` };
    if (!decision.allowed || !rendered) return this.#refusal(decision, terms);
    const result = this.#merged(decision, terms);
    const changed = ["toolName", "args", "prompt", "personalityId"].find((key) => {
      const judged = rendered[key] ?? terms?.plain(key);
      return terms?.wereShown && judged !== undefined && !isStill(result[key] ?? payload[key], judged);
    });
    // The guards have judged a copy: what a handler has changed in place since then, nobody has.
    if (changed)
      return { error: `${changed} was changed in place by a handler of ${name}; it returns what shall run instead` };
    return result;
  }

  /** The claim, or `handled: false`; where a claim means no, it is also the answer without a daemon. */
  async fireClaiming(
    /** @type {string} */ name,
    /** @type {any} */ payload,
    /** @type {any} */ allowedPlugins = undefined,
    /** @type {any} */ options = {},
  ) {
    const { decision, terms } = await this.#fire(name, payload, allowedPlugins, options);
    if (REJECTS_BY_CLAIM.includes(name)) return { handled: true, reason: decision.reason || decision.explanation };
    if (!decision.allowed || decision.rendered?.handled !== true) return { handled: false };
    const claim = decision.layer === "session" ? terms?.answerOf(decision.hook) : undefined;
    return claim?.handled === true ? this.#results.get(claim) : decision.rendered;
  }

  unregisterPlugin(/** @type {string} */ pluginId) {
    for (const [id, { plugin }] of [...this.#handlers]) if (plugin === pluginId) this.#remove(id);
  }

  /** Whether anybody listens, here or in the daemon as far as `refresh` and its announcements have said. */
  hasHandlers(/** @type {string} */ model, /** @type {string} */ name) {
    const [own, event] = POINTS[name] ?? [];
    if (own !== model || event === undefined) return false;
    const isListened = this.#listened === null || this.#listened.has(event) || this.#listened.has(EVERY_GATE);
    return isListened || this.#at(name).length > 0;
  }

  /** Ask the daemon which events have hooks, now, at each announcement, and whenever there is another one. */
  async refresh() {
    if (!this.#isFollowing) {
      this.#isFollowing = true;
      this.session.onAnnouncement(() => void this.#look());
      this.session.on("connected", () => void this.#look());
      this.session.on("lost", () => (this.#listened = null));
    }
    await this.session.subscribe().catch(() => undefined);
    await this.#look();
  }

  async #look() {
    try {
      const { hooks } = await this.session.request("hooks");
      // Those of a registry are its own to count: one that was taken off is gone at once.
      const isOwn = (/** @type {any} */ one) => one.layer === "session" && one.id.split("#")[0] in POINTS;
      const active = hooks.filter((/** @type {any} */ one) => one.state !== "disabled" && !isOwn(one));
      this.#listened = new Set(active.map((/** @type {any} */ one) => one.event));
    } catch {
      this.#listened = null;
    }
  }

  async close() {
    await this.session.close();
  }

  /** @param {string} point */
  #at(point) {
    return [...this.#handlers.values()].filter((handler) => handler.point === point);
  }

  /**
   * @param {string} model
   * @param {string} point
   * @param {any} handler
   * @param {{ pluginId?: string }} options
   */
  #register(model, point, handler, { pluginId }) {
    if (POINTS[point]?.[0] !== model)
      throw new TypeError(`${point} is no ${model} point of hooklatch; it would be ignored`);
    if (typeof handler !== "function") throw new TypeError(`a handler of ${point} is a function, not ${handler}`);
    const id = `${point}#${++lastNumber}`;
    const wire = { id, name: point, model, served: true, ...(pluginId && { pluginId }) };
    const serve = async (/** @type {any} */ payload) => {
      // What was taken off has no opinion from then on, whatever the daemon still believes.
      return this.#handlers.has(id) ? this.#sent(model, await handler(payload)) : null;
    };
    const register = async () => {
      own.failure = undefined;
      try {
        const { refused } = await this.session.registerEach([wire], [serve]);
        if (refused.length) this.#warnings.warn(`a handler of ${point} was refused: ${refused[0].reason}`);
      } catch (error) {
        own.failure = error instanceof Error ? error : new Error(String(error));
        if (this.#handlers.has(id)) this.#warnings.warn(`a handler of ${point} is not registered: ${error}`);
      }
    };
    /** @type {Handler} */
    const own = { point, plugin: pluginId, register, registered: Promise.resolve() };
    this.#handlers.set(id, own);
    own.registered = register();
    return () => this.#remove(id);
  }

  /**
   * Return a handler's result as it is sent: of an instance of a class the own keys, as Ethos reads it.
   *
   * @param {string} model
   * @param {any} result
   */
  #sent(model, result) {
    if (model === VOID || result === undefined) return null;
    if (typeof result !== "object" || result === null || Array.isArray(result)) return result;
    // Of what keeps its content elsewhere, a Map or an Error say, the own keys would be no opinion.
    if (model === MODIFYING && !isPlain(result) && Object.keys(result).length === 0) return result;
    const sent = model === CLAIMING ? { ...result, handled: result.handled } : { ...result };
    this.#results.set(sent, result);
    return sent;
  }

  /** @param {string} id */
  #remove(id) {
    const handler = this.#handlers.get(id);
    this.#handlers.delete(id);
    void handler?.registered.then(() => this.session.unregister(id)).catch(() => undefined);
  }

  /**
   * @param {string} name
   * @param {any} payload
   * @param {string[] | undefined} plugins
   * @param {{ signal?: AbortSignal }} options
   * @returns {Promise<{ decision: any, terms: Terms | null, failed: Error | undefined }>}
   */
  async #fire(name, payload, plugins, { signal }) {
    const registered = () => Promise.all([...this.#handlers.values()].map((handler) => this.#registered(handler)));
    await unlessAborted(registered, signal).catch(() => undefined); // the fire itself says that it was given up
    const failed = this.#at(name).find(({ failure }) => failure !== undefined)?.failure;
    const canRefuse = POINTS[name] === undefined || (POINTS[name][0] === MODIFYING && !OPEN_POINTS.includes(name));
    const session = /** @type {any} */ (this.session);
    const kind = { canRefuse, keepsTerms: true };
    const fired = await session[FIRE](name, payload, { plugins, signal }, kind);
    this.#tell(name, canRefuse, fired.decision);
    const { isLocal, outcomes, warnings } = fired.decision;
    const isUnread =
      !canRefuse && !isLocal && outcomes.length === 0 && warnings.length > 0 && this.#at(name).length > 0;
    // The daemon could not use it, a session's id that is a number say. The handlers of this process can.
    const hidden = { ...kind, hidden: warnings[0] };
    return { ...(isUnread ? await session[FIRE](name, payload, { plugins, signal }, hidden) : fired), failed };
  }

  /**
   * Say what the caller of a point without a refusal is not told.
   *
   * @param {string} name
   * @param {boolean} canRefuse
   * @param {any} decision
   */
  #tell(name, canRefuse, { warnings, outcomes, explanation, allowed }) {
    if (canRefuse) {
      if (POINTS[name] === undefined && !allowed) this.#warnings.warn(`${name}: ${explanation}`);
      return;
    }
    for (const text of warnings) this.#warnings.warn(`${name}: ${text}`);
    for (const { hook, outcome, message } of outcomes) {
      if (this.#handlers.has(hook) && outcome !== "answered")
        this.#warnings.warn(`${name}: a handler failed: ${message}`);
    }
  }

  /**
   * Wait until a handler is registered; one that met no daemon is tried again.
   *
   * @param {Handler} handler
   * @returns {Promise<void>}
   */
  async #registered(handler) {
    const attempt = handler.registered;
    await attempt;
    if (handler.registered !== attempt) return this.#registered(handler); // another fire tries again
    if (handler.failure instanceof DaemonUnreachableError && this.session.isConnected) {
      handler.registered = handler.register();
      await handler.registered;
    }
  }

  /**
   * Return the merged result of a fire, with the values that its handlers gave.
   *
   * @param {any} decision
   * @param {Terms | null} terms
   */
  #merged({ rendered, outcomes }, terms) {
    /** @type {Record<string, any>} */
    const merged = {};
    for (const [key, value] of Object.entries(rendered)) put(merged, key, terms ? terms.native(key, value) : value);
    // Ethos merges any key; what hooklatch has no name for, it neither judges nor passes on.
    for (const { layer, hook, outcome } of outcomes) {
      const result = layer === "session" && outcome === "answered" ? terms?.answerOf(hook) : undefined;
      for (const [key, value] of Object.entries(result ?? {})) {
        if (!Object.hasOwn(merged, key) && value !== null && value !== undefined) put(merged, key, value);
      }
    }
    return merged;
  }

  /**
   * @param {any} decision
   * @param {Terms | null} terms
   */
  #refusal(decision, terms) {
    const given = decision.layer === "session" ? terms?.answerOf(decision.hook)?.error : undefined;
    const error = decision.rendered?.error || decision.reason || decision.explanation;
    return { ...(decision.rendered ?? {}), error: isObject(given) ? given : error };
  }
}

module.exports = { HookRegistry, openHookRegistry };
