"use strict";

/**
 * Reasonix' hooks over a hooklatch session: `loadHooks` and `runHooks` as its code calls them.
 *
 * The hooks that are passed are registered with the daemon, which runs them beside the guards of the operator. One that
 * is refused stands in where it would have decided, and blocks there; a list that could not be registered blocks where
 * a hook could have: nobody may believe in a guard that is not there.
 */

const { homedir } = require("node:os");
const { join, resolve } = require("node:path");

const { AbandonedError } = require("./errors.js");
const { unlessAborted } = require("./fires.js");
const { InUse } = require("./in_use.js");
const { connect, FIRE } = require("./session.js");
const { read } = require("./settings.js");
const { Warnings } = require("./warnings.js");

/** @type {Record<string, boolean>} each event, and whether it can be blocked here; a name that nobody knows can */
const EVENTS = Object.setPrototypeOf(
  {
    PreToolUse: true,
    PostToolUse: false,
    PostToolUseFailure: false,
    PermissionRequest: true,
    UserPromptSubmit: true,
    Stop: false,
    StopFailure: false,
    PostLLMCall: false,
    SessionStart: false,
    SessionEnd: false,
    PreSubagent: true,
    SubagentStop: false,
    Notification: false,
    PreCompact: true,
  },
  null, // "constructor" is no event
);
const MAX_COMMAND = 60;

/** @param {string} line */
const shortened = (line) => (line.length <= MAX_COMMAND ? line : `${line.slice(0, MAX_COMMAND)}…`);

/** @param {string} event */
const canRefuse = (event) => EVENTS[event] ?? true;

/**
 * Return what is said where no hook has said anything.
 *
 * @param {string} event
 * @param {string} why
 * @param {boolean} blocked
 * @returns {HookOutcome}
 */
function outcomeOf(event, why, blocked) {
  const hook = { scope: "hooklatch", event, command: "hooklatch" };
  const decision = blocked ? "block" : "warn";
  return { hook, decision, exitCode: blocked ? 2 : null, stdout: "", stderr: why, durationMs: 0 };
}

/**
 * @typedef {import("../types/reasonix.js").ResolvedHook} ResolvedHook
 * @typedef {import("../types/reasonix.js").HookOutcome} HookOutcome
 */

/**
 * Open a session in Reasonix' words.
 *
 * @param {import("../types/index.js").Options} options
 */
async function openHooks(options = {}) {
  return new Hooks(await connect({ ...options, dialect: "reasonix" }));
}

/**
 * Read `.reasonix/settings.json` of the project, then of the person, by a session of its own.
 *
 * @param {import("../types/reasonix.js").Places & import("../types/index.js").Options} places
 */
async function loadHooks({ projectRoot, homeDir, ...options } = {}) {
  const hooks = await openHooks(options);
  try {
    return await hooks.loadHooks({ projectRoot, homeDir });
  } finally {
    await hooks.close();
  }
}

/**
 * The line about one outcome for people; empty if it passed.
 *
 * @param {HookOutcome} outcome
 */
function formatHookOutcomeMessage({ hook, decision, stderr, stdout, truncated }) {
  if (decision === "pass") return "";
  const command = shortened(hook.command ?? "");
  const detail = (stderr || stdout).trim();
  const cut = truncated ? " (output truncated at 256KB)" : "";
  return `hook [${hook.scope}/${hook.event}] ${command && `${command} `}— ${decision}${cut}${detail ? `: ${detail}` : ""}`;
}

class Hooks {
  #inUse;
  #warnings = new Warnings();

  /** @param {import("../types/index.js").Session} session one with the dialect "reasonix" */
  constructor(session) {
    this.session = session;
    this.#inUse = new InUse(session, Object.keys(EVENTS), this.#warnings);
    // Reasonix' are functions: code that takes them by name moves unchanged.
    this.loadHooks = this.loadHooks.bind(this);
    this.runHooks = this.runHooks.bind(this);
  }

  /**
   * Read `.reasonix/settings.json` of the project, then of the person. A file that cannot be read blocks the gates.
   *
   * @param {import("../types/reasonix.js").Places} places
   * @returns {Promise<ResolvedHook[]>}
   */
  async loadHooks({ projectRoot, homeDir = homedir() } = {}) {
    const settings = (/** @type {string} */ root) => join(resolve(root), ".reasonix/settings.json");
    const project =
      projectRoot === undefined ? [] : await read(this.session, { scope: "project", source: settings(projectRoot) });
    return [...project, ...(await read(this.session, { scope: "global", source: settings(homeDir) }))];
  }

  /**
   * Run the hooks of `payload.event`: those of `hooks`, and those that the daemon has.
   *
   * @param {{ hooks?: any[] | undefined, payload: Record<string, any>, signal?: AbortSignal | undefined }} options
   */
  async runHooks({ hooks = [], payload, signal }) {
    const { event, ...fields } = payload;
    const kind = { canRefuse: canRefuse(event), keepsTerms: false };
    const run = async () =>
      this.#inUse.while(await hooks, event, async (hookOf) => {
        const { decision } = await /** @type {any} */ (this.session)[FIRE](event, fields, { signal }, kind);
        return this.#reportOf(decision, event, hookOf);
      });
    try {
      return await unlessAborted(run, signal);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      const isGivenUp = error instanceof AbandonedError;
      return this.#withoutDaemon(event, isGivenUp ? why : `its hooks could not be registered: ${why}`);
    }
  }

  /**
   * Return what Reasonix is told of a decision; `hookOf` gives the hook that was passed, by its id.
   *
   * @param {any} decision
   * @param {string} event
   * @param {(id: string) => any} hookOf
   */
  #reportOf(decision, event, hookOf) {
    const { rendered } = decision;
    const isWhole = typeof rendered?.blocked === "boolean" && Array.isArray(rendered.outcomes);
    if (decision.isLocal || !isWhole) return this.#withoutDaemon(event, decision.reason ?? decision.warnings.join());
    let { message } = rendered;
    const outcomes = rendered.outcomes.map((/** @type {any} */ outcome) => {
      const own = outcome.hook.scope === "session" ? hookOf(outcome.hook.id) : undefined;
      if (!own) return outcome;
      const line = ` ${shortened(outcome.hook.command)}`;
      if (outcome.decision !== "pass") {
        message = message.replace(`hook [session/${event}]${line}`, () => `hook [${own.scope}/${event}]${line}`);
      }
      return { ...outcome, hook: own };
    });
    // The decision and its rendering are one answer; if they differ, the stricter one counts.
    const blocked = rendered.blocked || (canRefuse(event) && !decision.allowed);
    // Of a payload that was refused no hook is called, and a report has no other place to say so.
    const isUnsaid = blocked && !outcomes.some((/** @type {HookOutcome} */ one) => one.decision === "block");
    if (isUnsaid) outcomes.push(outcomeOf(event, decision.reason ?? decision.explanation, true));
    else if (!outcomes.length) for (const text of decision.warnings) this.#warnings.warn(`${event}: ${text}`);
    return { ...rendered, message, outcomes, blocked };
  }

  /**
   * @param {string} event
   * @param {string} why
   */
  #withoutDaemon(event, why) {
    const blocked = canRefuse(event);
    if (!blocked) this.#warnings.warn(`${event}: ${why}`);
    return { event, outcomes: [outcomeOf(event, why, blocked)], blocked };
  }

  async close() {
    await this.session.close();
  }
}

module.exports = { formatHookOutcomeMessage, Hooks, loadHooks, openHooks };
