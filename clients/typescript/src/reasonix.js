/**
 * Reasonix' hooks over a hooklatch session: `loadHooks` and `runHooks` as its code calls them.
 *
 * The hooks that are passed are registered with the daemon, which runs them beside the guards of the operator. A list
 * that could not be registered blocks where a hook could have: nobody may believe in a guard that is not there.
 */

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

import { connect } from "./session.js";

// Whatever is not here can be blocked, also a name that nobody knows.
const OBSERVING = [
  "PostToolUse",
  "PostToolUseFailure",
  "Stop",
  "StopFailure",
  "PostLLMCall",
  "SessionStart",
  "SessionEnd",
  "SubagentStop",
  "Notification",
];
const MAX_COMMAND = 60;

/**
 * Open a session in Reasonix' words.
 *
 * @param {import("../types/index.js").Options} options
 */
export async function openHooks(options = {}) {
  return new Hooks(await connect({ ...options, dialect: "reasonix" }));
}

/**
 * Read `.reasonix/settings.json` of the project, then of the person. A file that cannot be read blocks the gates.
 *
 * @param {{ projectRoot?: string, homeDir?: string }} places
 * @returns {any[]}
 */
export function loadHooks({ projectRoot, homeDir = homedir() } = {}) {
  const project = projectRoot === undefined ? [] : read("project", join(projectRoot, ".reasonix/settings.json"));
  return [...project, ...read("global", join(homeDir, ".reasonix/settings.json"))];
}

/**
 * @param {string} scope
 * @param {string} source
 */
function read(scope, source) {
  let text;
  try {
    text = readFileSync(source, "utf8");
  } catch (error) {
    if (/** @type {any} */ (error).code === "ENOENT") return [];
    return unreadable(scope, source, error);
  }
  try {
    const { hooks = {} } = JSON.parse(text.replace(/^\ufeff/, ""));
    return Object.entries(hooks).flatMap(([event, entries]) =>
      /** @type {any[]} */ (entries).filter(isEntry).map((entry) => ({ ...entry, event, scope, source })),
    );
  } catch (error) {
    return unreadable(scope, source, error);
  }
}

/** @param {any} entry */
const isEntry = (entry) => typeof entry?.command === "string" && entry.command.trim() !== "";

/**
 * @param {string} scope
 * @param {string} source
 * @param {unknown} error
 */
function unreadable(scope, source, error) {
  const text = `${source} cannot be read: ${error instanceof Error ? error.message : error}`;
  const command = `echo '${text.replaceAll("'", "'\\''").replaceAll("\n", " ")}' >&2; exit 2`;
  return ["PreToolUse", "UserPromptSubmit"].map((event) => ({ event, command, scope, source }));
}

/**
 * The line about one outcome for people; empty if it passed.
 *
 * @param {any} outcome
 */
export function formatHookOutcomeMessage({ hook, decision, stderr, stdout, truncated }) {
  if (decision === "pass") return "";
  const command = hook.command.length <= MAX_COMMAND ? hook.command : `${hook.command.slice(0, MAX_COMMAND)}…`;
  const detail = (stderr || stdout).trim();
  const cut = truncated ? " (output truncated at 256KB)" : "";
  return `hook [${hook.scope}/${hook.event}] ${command} — ${decision}${cut}${detail ? `: ${detail}` : ""}`;
}

export class Hooks {
  /** @type {string[]} */
  #ids = [];
  #registered = "[]";
  #turn = Promise.resolve();

  /** @param {import("../types/index.js").Session} session one with the dialect "reasonix" */
  constructor(session) {
    this.session = session;
  }

  /**
   * Run the hooks of `payload.event`: those of `hooks`, and those that the daemon has.
   *
   * @param {{ hooks?: any[], payload: Record<string, any> }} options
   */
  async runHooks({ hooks = [], payload }) {
    const { event, ...fields } = payload;
    try {
      // One after another: two lists in use at once must not take each other's hooks away.
      await (this.#turn = this.#turn.catch(() => undefined).then(() => this.#use(hooks)));
    } catch (error) {
      const why = `its hooks could not be registered: ${error instanceof Error ? error.message : error}`;
      return report(event, !OBSERVING.includes(event), why);
    }
    const decision = await this.session.fire(event, fields);
    const { rendered } = decision;
    const isWhole = typeof rendered?.blocked === "boolean" && Array.isArray(rendered.outcomes);
    if (decision.isLocal || !isWhole) {
      return report(event, !OBSERVING.includes(event), decision.reason ?? decision.warnings.join());
    }
    // The decision and its rendering are one answer; if they differ, the stricter one counts.
    return { ...rendered, blocked: rendered.blocked || (!OBSERVING.includes(event) && !decision.allowed) };
  }

  async close() {
    await this.session.close();
  }

  /** @param {any[]} hooks */
  async #use(hooks) {
    const wires = hooks.map((hook, at) => wireOf(hook, at));
    const wanted = JSON.stringify(wires);
    if (wanted === this.#registered) return;
    const old = this.#ids;
    this.#registered = "";
    const ids = wires.length ? await this.session.register(wires) : [];
    for (const id of old) if (!ids.includes(id)) await this.session.unregister(id);
    this.#ids = ids;
    this.#registered = wanted;
  }
}

/**
 * A key that the daemon does not know is refused there: what it says may be what makes the hook a guard.
 *
 * @param {any} hook
 * @param {number} at
 */
function wireOf({ scope, source, ...own }, at) {
  const given = Object.entries(own).filter(([, value]) => value !== undefined);
  return { id: `${scope ?? "own"}-${at + 1}-${own.event}`, ...Object.fromEntries(given) };
}

/**
 * @param {string} event
 * @param {boolean} blocked
 * @param {string} why
 */
function report(event, blocked, why) {
  const hook = { scope: "hooklatch", event, command: "hooklatch" };
  const decision = blocked ? "block" : "warn";
  const outcome = { hook, decision, exitCode: blocked ? 2 : null, stdout: "", stderr: why, durationMs: 0 };
  return { event, outcomes: [outcome], blocked };
}
