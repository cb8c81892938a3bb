"use strict";

/**
 * The terms of one fire: the values that its host passed and its hooks answered, which never leave this process.
 *
 * The wire has plain copies of them. Whatever comes back as it went out is again the very value, and of what somebody
 * has changed, the parts that nobody has.
 */

const { InvalidPayloadError } = require("./errors.js");
const { encodeMarked, encodePlain, isSame, LONGEST, put } = require("./plain.js");
const { isObject } = require("./table.js");

/** @typedef {[plain: any, native: any]} Known a plain copy, and the value that it is of */

class Terms {
  #payload;
  #canRefuse;
  /** @type {Known | undefined} */
  #sent;
  /** @type {{ hook: string, known: Known }[]} */
  #answers = [];

  /** Whether a hook of this process was called. */
  wereShown = false;

  /**
   * @param {Record<string, any>} payload
   * @param {boolean} canRefuse whether what JSON cannot say is refused, and not marked
   * @param {number} limit bytes that a payload may have
   * @param {string} hidden why nobody else is to see it; "" where it is sent
   */
  constructor(payload, canRefuse, limit, hidden = "") {
    this.#payload = payload;
    this.#canRefuse = canRefuse;
    if (hidden) this.json = marked(hidden);
    else this.json = canRefuse ? encodePlain(payload, "payload") : asObject(encodeMarked(payload));
    this.isTooLong = Buffer.byteLength(this.json) > limit;
    if (this.isTooLong && !canRefuse) {
      // Nothing is refused there, so the hooks of this process are called; all others see that there was a long text.
      const short = asObject(encodeMarked(payload, { isShort: true }));
      this.json = Buffer.byteLength(short) > limit ? marked("it is too long") : short;
      this.isTooLong = false;
    }
  }

  /** @returns {Known} */
  get #fired() {
    return (this.#sent ??= [JSON.parse(this.json), this.#payload]);
  }

  /**
   * Return the payload for a hook of this process, given what the daemon sends it.
   *
   * @param {Record<string, any>} now
   */
  shown(now) {
    this.wereShown = true;
    const [before, payload] = this.#fired;
    if (!isObject(payload) || isSame(before, now)) return payload;
    const known = [this.#fired, ...this.#answers.map(({ known: one }) => one)];
    // Hooks replace whole values of keys and take none away.
    const own = Object.keys(payload).filter((key) => !Object.hasOwn(now, key));
    const shown = {};
    for (const key of own) put(shown, key, payload[key]);
    for (const key of Object.keys(now)) put(shown, key, nativeOf(now[key], inside(known, key)));
    return shown;
  }

  /**
   * Keep what a hook of this process answered, and return its JSON.
   *
   * @param {string} hook
   * @param {any} answer
   */
  answered(hook, answer) {
    const json = this.#canRefuse ? encodePlain(answer ?? null, "the answer") : encodeMarked(answer ?? null);
    this.#answers.push({ hook, known: [JSON.parse(json), answer] });
    return json;
  }

  /**
   * Return the last answer of a hook of this process in this fire.
   *
   * @param {string | null} hook
   */
  answerOf(hook) {
    return this.#answers.filter((one) => one.hook === hook).at(-1)?.known[1];
  }

  /**
   * Return the value that one of the keys of a decision is a plain copy of.
   *
   * @param {string} key its name in answers, and in the payload
   * @param {any} value
   */
  native(key, value) {
    return nativeOf(value, inside([...this.#answers.map(({ known }) => known), this.#fired], key));
  }

  /**
   * Return the plain copy of a key as it was sent.
   *
   * @param {string} key
   */
  plain(key) {
    const [sent] = this.#fired;
    return Object.hasOwn(sent, key) ? sent[key] : undefined;
  }
}

/** @param {string} json */
const asObject = (json) => (json.startsWith("{") ? json : marked(json));

/** @param {string} text */
const marked = (text) => JSON.stringify({ $native: "payload", text: text.slice(0, LONGEST) });

/**
 * Return a value whose plain copy is this one, as far as there is one.
 *
 * @param {any} value
 * @param {Known[]} known those that were at its place
 * @returns {any}
 */
function nativeOf(value, known) {
  const found = known.find(([plain]) => isSame(plain, value));
  if (found) return found[1];
  if (Array.isArray(value)) return value.map((one, at) => nativeOf(one, inside(known, at)));
  if (!isObject(value)) return value;
  const members = {};
  for (const key of Object.keys(value)) put(members, key, nativeOf(value[key], inside(known, key)));
  // A copy has no keys that are undefined, so nobody can have taken them away.
  const [, before] = known.find(([plain]) => isObject(plain) && !("$native" in plain)) ?? [];
  for (const key of Object.keys(before ?? {})) {
    if (before[key] === undefined && !Object.hasOwn(value, key)) put(members, key, undefined);
  }
  return members;
}

/**
 * @param {Known[]} known
 * @param {string | number} key
 * @returns {Known[]}
 */
function inside(known, key) {
  const has = (/** @type {any} */ one) => typeof one === "object" && one !== null && Object.hasOwn(one, key);
  return known.flatMap(([plain, native]) => {
    try {
      return has(plain) && has(native) ? [/** @type {Known} */ ([plain[key], native[key]])] : [];
    } catch {
      return []; // a getter that throws
    }
  });
}

/**
 * Return whether a value still is what its plain copy says.
 *
 * @param {unknown} value
 * @param {unknown} plain
 */
function isStill(value, plain) {
  try {
    return isSame(value === undefined ? undefined : JSON.parse(encodePlain(value, "it")), plain);
  } catch (error) {
    if (error instanceof InvalidPayloadError) return false;
    throw error;
  }
}

module.exports = { Terms, isStill };
