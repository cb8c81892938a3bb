"use strict";

/**
 * What a host does with the answer to a fire, and the decision when there is no answer.
 *
 * Knows a decision's shape and which events cannot refuse; does not know connections or clocks.
 */

const { randomUUID } = require("node:crypto");

const {
  AbandonedError,
  DaemonUnreachableError,
  InvalidPayloadError,
  RequestFailedError,
  UnreadableAnswerError,
} = require("./errors.js");
const { faultOf, INSTEAD, TOLD } = require("./table.js");

const GOES_ON = ["pass", "allow", "claim"];

const EMPTY = {
  cause: null,
  reason: null,
  layer: null,
  hook: null,
  retryable: false,
  patch: null,
  payload_digest: null,
  inject: [],
  append: null,
  resume: null,
  value: null,
  context: null,
  revision: null,
  duration_ms: 0,
  outcomes: [],
  warnings: [],
  name: "",
  rendered: null,
  followed_by: [],
  instead: null,
  record: null,
};

/** The one answer to a fire, under the keys of the wire. */
class Decision {
  #isLocal;

  /**
   * @param {Record<string, any>} fields
   * @param {{ isLocal?: boolean }} mark
   */
  constructor(fields, { isLocal = false } = {}) {
    this.#isLocal = isLocal;
    // Only keys that a decision has: a wire's "allowed" or "__proto__" is none of them.
    const known = Object.keys(EMPTY).filter((key) => Object.hasOwn(fields, key));
    Object.assign(this, EMPTY, Object.fromEntries(known.map((key) => [key, fields[key]])));
    /** @type {string} */ this.decision_id = fields.decision_id;
    /** @type {string} */ this.verdict = fields.verdict;
    /** @type {string} */ this.event = fields.event;
    /** @type {string | null} */ this.reason = fields.reason ?? null;
    /** @type {string | null} */ this.cause = fields.cause ?? null;
    /** @type {string | null} */ this.hook = fields.hook ?? null;
    /** @type {string | null} */ this.instead = fields.instead ?? null;
    /** @type {number | null} */ this.revision = fields.revision ?? null;
    /** @type {any} */ this.rendered = fields.rendered ?? null;
    Object.freeze(this);
  }

  /**
   * Return this decision with other values in some of its fields.
   *
   * @param {Record<string, any>} fields
   */
  with(fields) {
    return new Decision({ ...this, ...fields }, { isLocal: this.#isLocal });
  }

  /** Whether the action may go on: not for deny and halt, and not for ask, which needs approval first. */
  get allowed() {
    return GOES_ON.includes(this.verdict);
  }

  /** Whether the person at the host has to approve it. */
  get needsAsking() {
    return this.verdict === "ask";
  }

  /** Whether the client decided by itself, without an answer of the daemon. */
  get isLocal() {
    return this.#isLocal;
  }

  /** Who decided and why, in one line. */
  get explanation() {
    const who = this.hook ? ` by ${this.hook}` : "";
    if (this.allowed) return `${this.event} allowed${who}: ${this.verdict}`;
    return `${this.event} refused${who}: ${this.reason || this.cause || this.verdict}`;
  }

  /** The text for the model: a hook's own reason, or what a failure means, and what to do then. */
  get forModel() {
    const frame = this.cause ? TOLD[this.cause] : undefined;
    if (frame === undefined) {
      const next = this.instead ? `${INSTEAD}${this.instead}` : "";
      return `${this.reason || this.explanation}${next}`;
    }
    // A reason may name what a person runs, such as to disable a guard.
    const why = this.reason && !this.reason.includes("hooklatch ") ? `: ${this.reason}` : "";
    return `${frame[0]}${why}${frame[1]}`;
  }

  /**
   * Return the error block that the Messages API needs for a tool call that was refused.
   *
   * @param {string} toolUseId
   */
  asToolResult(toolUseId) {
    if (this.allowed) throw new TypeError(`the decision is ${this.verdict}: run the tool and send its own result`);
    return { type: "tool_result", tool_use_id: toolUseId, is_error: true, content: this.forModel };
  }
}

/**
 * Read the answer to a fire of `event`; the decision on a native one has that event's name in the catalogue.
 *
 * @param {any} result
 * @param {string} event
 * @param {boolean} isNative
 */
function readDecision(result, event, isNative) {
  const problem = faultOf(result);
  if (problem) throw new UnreadableAnswerError(`the answer is not a valid decision: ${problem}`);
  if (!isNative && result.event !== event) {
    throw new UnreadableAnswerError(`the answer decides on ${result.event}, not on ${event}`);
  }
  const followed = (result.followed_by ?? []).map((/** @type {any} */ one) => new Decision(one));
  return new Decision({ ...result, followed_by: followed });
}

/**
 * Decide in place of the daemon: deny what can refuse, pass with a warning what cannot.
 *
 * @param {string} event
 * @param {unknown} error
 * @param {boolean} canRefuse
 */
function decideLocally(event, error, canRefuse) {
  const cause = causeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  const fields = { decision_id: `local-${randomUUID()}`, event };
  if (!canRefuse) return local({ ...fields, verdict: "pass", warnings: [`${cause}: ${message}`] });
  const retryable = ["no_daemon", "overload", "abandoned"].includes(cause);
  const reason = `the hook daemon did not decide (fail-safe deny): ${message}`;
  return local({ ...fields, verdict: "deny", cause, reason, retryable });
}

/** @param {Record<string, any>} fields */
const local = (fields) => new Decision(fields, { isLocal: true });

/** @param {unknown} error */
function causeOf(error) {
  if (error instanceof DaemonUnreachableError) return "no_daemon";
  if (error instanceof InvalidPayloadError) return "payload";
  if (error instanceof AbandonedError) return "abandoned";
  return error instanceof RequestFailedError && error.label === "overload" ? "overload" : "protocol";
}

module.exports = { Decision, readDecision, decideLocally };
