"use strict";

/**
 * The fires of a session, and the calls of its hooks while they are in flight.
 *
 * Hooks of this process get and give the terms of their fire. Knows no link and no hook's name.
 */

const { randomUUID } = require("node:crypto");

const { decideLocally, readDecision } = require("./decisions.js");
const { AbandonedError } = require("./errors.js");
const { encodePlain } = require("./plain.js");
const { Terms } = require("./terms.js");

const MAX_PAYLOAD = 8 * 2 ** 20;

/**
 * @typedef {object} Kind what a fire is, which an adapter knows of its events better than a session
 * @property {boolean} canRefuse whether what JSON cannot say, or nobody answers, is refused
 * @property {boolean} keepsTerms whether hooks of this process get the very values of the payload
 * @property {string} [hidden] why nobody else is to see the payload
 */

class Fires {
  /** @type {Map<string, Terms>} */
  #inFlight = new Map(); // by call id
  #request;
  #isNative;

  /** Bytes of a payload. */
  limit = MAX_PAYLOAD;

  /**
   * @param {(params: Record<string, string>) => Promise<any>} request
   * @param {boolean} isNative whether events have the names of another system
   */
  constructor(request, isNative) {
    this.#request = request;
    this.#isNative = isNative;
  }

  /**
   * Fire; give the decision, and the terms if there are any.
   *
   * @param {string} event
   * @param {Record<string, any>} payload
   * @param {import("../types/index.js").FireOptions} options
   * @param {Kind} kind
   * @returns {Promise<{ decision: any, terms: Terms | null }>}
   */
  async fire(event, payload, options, { canRefuse, keepsTerms, hidden }) {
    /** @type {Terms | null} */
    let terms = null;
    let { callId } = options;
    try {
      terms = new Terms(payload, canRefuse, this.limit, hidden);
      if (keepsTerms) callId = this.#keep(terms, callId);
      const params = paramsOf(event, terms, { ...options, callId });
      const answer = await unlessAborted(() => this.#request(params), options.signal);
      return { decision: readDecision(answer, event, this.#isNative), terms };
    } catch (error) {
      return { decision: decideLocally(event, error, canRefuse), terms };
    } finally {
      if (callId !== undefined && this.#inFlight.get(callId) === terms) this.#inFlight.delete(callId);
    }
  }

  /**
   * Call a hook of this process; give its answer as JSON.
   *
   * @param {Function} hook
   * @param {any} params of the `call`
   */
  async call(hook, params) {
    const terms = this.#inFlight.get(params.call_id);
    if (!terms) return encodePlain((await hook(params.payload, params)) ?? null, "the answer");
    return terms.answered(params.hook, await hook(terms.shown(params.payload), params));
  }

  /**
   * Keep the terms of a fire by its call id, and return that.
   *
   * @param {Terms} terms
   * @param {string | undefined} given
   */
  #keep(terms, given) {
    const callId = given ?? randomUUID();
    if (this.#inFlight.has(callId)) return given; // two at once have one id: nobody can tell whose a call is
    this.#inFlight.set(callId, terms);
    return callId;
  }
}

/**
 * @param {string} event
 * @param {Terms} terms
 * @param {import("../types/index.js").FireOptions} options
 */
function paramsOf(event, terms, { callId, timeout, context, envelope, plugins }) {
  const isCut = terms.isTooLong; // the daemon is told, and refuses
  const params = { event: encodePlain(event, "event"), payload: isCut ? "{}" : terms.json };
  const others = { call_id: callId, timeout, context, envelope, plugins, truncated: isCut || undefined };
  for (const [key, value] of Object.entries(others)) {
    if (value !== undefined) Object.assign(params, { [key]: encodePlain(value, key) });
  }
  return params;
}

/**
 * Return what an operation gives, unless the caller gives it up.
 *
 * @param {() => Promise<any>} operation
 * @param {AbortSignal | undefined} signal
 */
async function unlessAborted(operation, signal) {
  if (!signal) return operation();
  const why = () => new AbandonedError(`the caller gave it up: ${signal.reason}`);
  if (signal.aborted) throw why();
  const ended = new AbortController();
  const abandoned = new Promise((_, reject) =>
    signal.addEventListener("abort", () => reject(why()), { signal: ended.signal }),
  );
  const answer = operation();
  answer.catch(() => undefined); // of a call that was given up nobody hears
  return Promise.race([answer, abandoned]).finally(() => ended.abort());
}

module.exports = { Fires, unlessAborted };
