"use strict";

/**
 * Plain copies: what JSON says of a value, and where it cannot say it.
 *
 * A copy is what everybody else reads of a value. What JSON cannot say is refused with the path of its key or, where
 * nothing can be refused, stands there as a mark: `{"$native": "Date", "text": "2026-01-01T00:00:00.000Z"}`.
 */

const { InvalidPayloadError } = require("./errors.js");
const { hasLoneSurrogate } = require("./json.js");
const { isObject } = require("./table.js");

const DEEPEST = 500;
const LONGEST = 200; // characters of a mark's text
const LONE_SURROGATES = /\p{Surrogate}/gu;

/** @typedef {(value: unknown, where: string, what: string) => unknown} Instead what stands for a value, or throws */

/**
 * Return a value as JSON that every reader reads alike, or throw: JSON.stringify turns NaN to null without a word.
 *
 * @param {unknown} value
 * @param {string} where
 * @returns {string}
 */
function encodePlain(value, where) {
  return JSON.stringify(copied(value, where, [], refused));
}

/**
 * Return a value as JSON, with marks for what JSON cannot say. Where `isShort`, long texts are marks too.
 *
 * @param {unknown} value
 * @param {{ isShort?: boolean }} options
 * @returns {string}
 */
function encodeMarked(value, { isShort = false } = {}) {
  return JSON.stringify(copied(value, "", [], mark, isShort ? LONGEST : Infinity));
}

/**
 * @param {unknown} _
 * @param {string} where
 * @param {string} what
 * @returns {never}
 */
function refused(_, where, what) {
  throw new InvalidPayloadError(`${where} ${what}`);
}

/**
 * @param {any} value
 * @param {string} where
 * @param {unknown[]} above
 * @param {Instead} instead
 * @param {number} longest
 * @returns {any}
 */
function copied(value, where, above, instead, longest = Infinity) {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number") {
    return Number.isFinite(value) ? value : instead(value, where, `is ${value}, which JSON cannot say`);
  }
  if (typeof value === "string") {
    if (hasLoneSurrogate(value)) {
      return instead(value, where, "contains a lone surrogate, which UTF-8 cannot encode");
    }
    return value.length <= longest ? value : instead(value, where, "is too long");
  }
  const unsayable = () => instead(value, where, `is ${withArticle(kindOf(value))}, which JSON cannot say`);
  if (typeof value !== "object") return unsayable();
  if (above.includes(value) || above.length > DEEPEST) {
    return instead(value, where, "is nested too deep, or holds itself");
  }
  const within = [...above, value];
  const isList = Array.isArray(value);
  const inner = (/** @type {string | number} */ key, /** @type {string} */ path) => {
    try {
      const one = value[key];
      return one === undefined && !isList ? undefined : copied(one, path, within, instead, longest);
    } catch (error) {
      if (error instanceof InvalidPayloadError) throw error;
      return instead(error, path, `cannot be read: ${error}`); // a getter that throws
    }
  };
  if (isList) return Array.from({ length: value.length }, (_, at) => inner(at, `${where}[${at}]`));
  if (!isPlain(value) || "toJSON" in value) return unsayable();
  const members = {};
  for (const key of Object.keys(value)) {
    if (hasLoneSurrogate(key)) instead(key, where, "has a key with a lone surrogate");
    const copy = inner(key, `${where}.${key}`);
    if (copy !== undefined) put(members, clean(key), copy);
  }
  return members;
}

/**
 * @param {unknown} value
 * @returns {Record<string, string>}
 */
function mark(value) {
  const text = textOf(value);
  return { $native: kindOf(value), ...(text && { text }) };
}

/**
 * Return whether a value is an object as literals and parsers make it, also one of another realm (node:vm).
 *
 * @param {object} value
 */
function isPlain(value) {
  const above = Object.getPrototypeOf(value);
  if (above === null || above === Object.prototype) return true;
  return Object.getPrototypeOf(above) === null && Object.hasOwn(above, "isPrototypeOf");
}

/** @param {any} value */
function kindOf(value) {
  if (typeof value !== "object" || value === null) return typeof value;
  try {
    const { name } = value.constructor;
    return typeof name === "string" && name ? clean(name).slice(0, LONGEST) : "Object";
  } catch {
    return "Object";
  }
}

/**
 * Return a few words about a value that JSON cannot say, "" where there are none.
 *
 * @param {any} value
 */
function textOf(value) {
  try {
    let text = "";
    if (typeof value === "function") text = value.name;
    else if (value instanceof Date) text = Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
    else if (value instanceof Uint8Array) text = Buffer.from(value.subarray(0, 4 * LONGEST)).toString();
    else if (typeof value !== "object") text = value === undefined ? "" : String(value);
    else if (value.toString !== Object.prototype.toString && !Array.isArray(value)) text = String(value);
    return Array.from(clean(text.slice(0, 2 * LONGEST)))
      .slice(0, LONGEST)
      .join("");
  } catch {
    return "";
  }
}

/** @param {string} text */
const clean = (text) => text.replace(LONE_SURROGATES, "\ufffd");

/** @param {string} kind */
const withArticle = (kind) => (kind === "undefined" ? kind : `${/^[aeiou]/i.test(kind) ? "an" : "a"} ${kind}`);

/**
 * Return whether two plain values are the same JSON.
 *
 * @param {any} one
 * @param {any} other
 * @returns {boolean}
 */
function isSame(one, other) {
  if (one === other) return true;
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length && one.every((value, at) => isSame(value, other[at]));
  }
  if (!isObject(one) || !isObject(other)) return false;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]))
  );
}

/**
 * Set a key, "__proto__" too, which an assignment would take for the prototype.
 *
 * @param {object} members
 * @param {string} key
 * @param {unknown} value
 */
function put(members, key, value) {
  Object.defineProperty(members, key, { value, enumerable: true, configurable: true, writable: true });
}

module.exports = { encodeMarked, encodePlain, isPlain, isSame, LONGEST, put };
