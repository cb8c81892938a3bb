/**
 * Ethos' hook registry over a hooklatch session: the same methods, so that code written for it moves unchanged.
 *
 * A handler is served by this process and called by the daemon, beside the guards that the operator put there. A handler
 * that could not be registered on a gate refuses: nobody may believe in a guard that is not there.
 */

import { connect } from "./session.js";

const VOID = "void";
const MODIFYING = "modifying";
const CLAIMING = "claiming";

/** @type {Record<string, [string, string]>} each point's model, and the catalogue's event that it feeds */
const POINTS = {
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
};
const OPEN_POINTS = ["before_prompt_build", "message_sending", "personality_switched"];
const REJECTS_BY_CLAIM = ["before_ticket_complete", "before_goal_complete"];

/**
 * Open a session in Ethos' words, and its registry.
 *
 * @param {import("../types/index.js").Options} options
 */
export async function openHookRegistry(options = {}) {
  const registry = new HookRegistry(await connect({ ...options, dialect: "ethos" }));
  await registry.refresh();
  return registry;
}

export class HookRegistry {
  /** @type {Map<string, { point: string, plugin: string | undefined, registered: Promise<unknown> }>} */
  #handlers = new Map();
  /** @type {Map<string, unknown>} */
  #failed = new Map();
  /** @type {Set<string>} */
  #listened = new Set();
  #lastNumber = 0;

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
  ) {
    await this.#fire(name, payload, allowedPlugins);
  }

  /** The merged result; a refusal, whoever made it and why, is its `error`. */
  async fireModifying(
    /** @type {string} */ name,
    /** @type {any} */ payload,
    /** @type {any} */ allowedPlugins = undefined,
  ) {
    const decision = await this.#fire(name, payload, allowedPlugins);
    const { rendered } = decision;
    const isWhole = typeof rendered === "object" && rendered !== null && !Array.isArray(rendered);
    if (OPEN_POINTS.includes(name)) return isWhole && decision.allowed ? rendered : {};
    const failed = [...this.#failed].find(([id]) => id.startsWith(`${name}#`));
    if (failed) return { error: `a handler of ${name} could not be registered: ${failed[1]}` };
    if (!decision.allowed || !isWhole) return { error: decision.reason || decision.explanation };
    return rendered;
  }

  /** The claim, or `handled: false`; where a claim means no, it is also the answer without a daemon. */
  async fireClaiming(
    /** @type {string} */ name,
    /** @type {any} */ payload,
    /** @type {any} */ allowedPlugins = undefined,
  ) {
    const decision = await this.#fire(name, payload, allowedPlugins);
    if (REJECTS_BY_CLAIM.includes(name)) return { handled: true, reason: decision.reason || decision.explanation };
    return decision.allowed && decision.rendered?.handled === true ? decision.rendered : { handled: false };
  }

  unregisterPlugin(/** @type {string} */ pluginId) {
    for (const [id, { plugin }] of [...this.#handlers]) if (plugin === pluginId) this.#remove(id);
  }

  /** Whether anybody listens, here or in the daemon as far as `refresh` and its announcements have said. */
  hasHandlers(/** @type {string} */ model, /** @type {string} */ name) {
    const [own, event] = POINTS[name] ?? [];
    if (own !== model || event === undefined) return false;
    return this.#listened.has(event) || [...this.#handlers.values()].some(({ point }) => point === name);
  }

  /** Ask the daemon which events have hooks, now and at each announcement. */
  async refresh() {
    const look = async () => {
      const { hooks } = await this.session.request("hooks");
      const active = hooks.filter((/** @type {any} */ one) => one.state !== "disabled");
      this.#listened = new Set(active.map((/** @type {any} */ one) => one.event));
    };
    this.session.onAnnouncement(() => void look().catch(() => this.#listened.clear()));
    await this.session.subscribe().catch(() => undefined);
    await look().catch(() => this.#listened.clear());
  }

  async close() {
    await this.session.close();
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
    const id = `${point}#${++this.#lastNumber}`;
    const wire = { id, name: point, model, served: true, ...(pluginId && { pluginId }) };
    const serve = async (/** @type {any} */ payload) => (await handler(payload)) ?? null;
    const registered = this.session.register([wire], [serve]).catch((error) => {
      if (this.#handlers.has(id)) this.#failed.set(id, error instanceof Error ? error.message : error);
    });
    this.#handlers.set(id, { point, plugin: pluginId, registered });
    return () => this.#remove(id);
  }

  /** @param {string} id */
  #remove(id) {
    const handler = this.#handlers.get(id);
    this.#handlers.delete(id);
    this.#failed.delete(id);
    void handler?.registered.then(() => this.session.unregister(id)).catch(() => undefined);
  }

  /**
   * @param {string} name
   * @param {any} payload
   * @param {string[] | undefined} plugins
   */
  async #fire(name, payload, plugins) {
    await Promise.all([...this.#handlers.values()].map(({ registered }) => registered));
    return this.session.fire(name, payload, { plugins });
  }
}
