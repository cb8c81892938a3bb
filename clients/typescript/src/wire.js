/**
 * Lines and messages: what goes out is plain JSON, and what comes in is whole.
 *
 * Knows bytes and shapes; does not know sockets or sessions.
 */

import { InvalidPayloadError, RequestFailedError, UnreadableAnswerError } from "./errors.js";
import { isInteger, parse } from "./json.js";
import { isObject } from "./table.js";

export const MAX_FRAME = 9 * 2 ** 20; // bytes of a line
const NEWLINE = 10;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Splits a stream into lines; bytes that are no UTF-8, and a line over the limit, are an error. */
export class Lines {
  /** @type {Buffer[]} */
  #begun = [];
  #size = 0;
  #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  /**
   * @param {Buffer} data
   * @returns {Generator<string>}
   */
  *feed(data) {
    for (let end; (end = data.indexOf(NEWLINE)) >= 0; data = data.subarray(end + 1)) {
      this.#begin(data.subarray(0, end));
      const line = Buffer.concat(this.#begun);
      [this.#begun, this.#size] = [[], 0];
      yield this.#decoder.decode(line);
    }
    if (data.length) this.#begin(data);
  }

  /** @param {Buffer} data */
  #begin(data) {
    this.#begun.push(data);
    this.#size += data.length;
    if (this.#size > MAX_FRAME) throw new UnreadableAnswerError(`a line is over the limit of ${MAX_FRAME} bytes`);
  }
}

/** A request of the daemon that this client cannot serve. */
export class InvalidCallError extends RequestFailedError {}

/**
 * @typedef {{ kind: "answer", id: unknown, result?: unknown, error?: RequestFailedError }} Answer
 * @typedef {{ kind: "request", id: number | string | undefined, method: string, params: any }} Request
 */

/**
 * Parse one line. Throws if it is no message of JSON-RPC 2.0.
 *
 * @param {string} line
 * @returns {Answer | Request}
 */
export function readMessage(line) {
  const message = parse(line);
  if (!isObject(message) || message.jsonrpc !== "2.0") throw new UnreadableAnswerError("it is no JSON-RPC 2.0 object");
  const { id, method, params = {}, result, error } = message;
  const parts = [method !== undefined, "result" in message, (error ?? null) !== null];
  if (parts.filter(Boolean).length !== 1)
    throw new UnreadableAnswerError("a message is a request, a result or an error");
  if (typeof id === "number" && !isInteger(message, "id")) throw new UnreadableAnswerError("its id is no integer");
  if (typeof method === "string") {
    if (id === null) throw new UnreadableAnswerError("a request whose id is null can have no answer");
    return { kind: "request", id, method, params };
  }
  if (isObject(error)) return { kind: "answer", id, error: readError(error) };
  if ((error === undefined || error === null) && "result" in message) return { kind: "answer", id, result };
  throw new UnreadableAnswerError("an answer needs a result or an error");
}

/** @param {any} error */
function readError({ code, message, data }) {
  const label = isObject(data) && typeof data.name === "string" ? data.name : "";
  return new RequestFailedError(Number.isInteger(code) ? code : 0, label, String(message ?? "it gave no reason"));
}

/**
 * Return a value as JSON that every reader reads alike, or throw: JSON.stringify turns NaN to null without a word.
 *
 * @param {unknown} value
 * @param {string} where
 * @returns {string}
 */
export function encodePlain(value, where) {
  checkPlain(value, where, []);
  return JSON.stringify(value);
}

/**
 * @param {any} value
 * @param {string} where
 * @param {unknown[]} above
 */
function checkPlain(value, where, above) {
  const wrong = (/** @type {string} */ what) => new InvalidPayloadError(`${where} ${what}`);
  if (value === null || typeof value === "boolean") return;
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw wrong(`is ${value}, which JSON cannot say`);
  } else if (typeof value === "string") {
    if (LONE_SURROGATE.test(value)) throw wrong("contains a lone surrogate, which UTF-8 cannot encode");
  } else if (typeof value !== "object") {
    throw wrong(`is a ${typeof value}, which JSON cannot say`);
  } else if (above.includes(value) || above.length > 500) {
    throw wrong("is nested too deep, or holds itself");
  } else if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) checkPlain(value[at], `${where}[${at}]`, [...above, value]);
  } else {
    const kind = Object.getPrototypeOf(value);
    if ((kind !== null && kind !== Object.prototype) || "toJSON" in value) throw wrong("is no plain object");
    for (const [key, one] of Object.entries(value)) {
      if (LONE_SURROGATE.test(key)) throw wrong("has a key with a lone surrogate");
      if (one !== undefined) checkPlain(one, `${where}.${key}`, [...above, value]);
    }
  }
}
