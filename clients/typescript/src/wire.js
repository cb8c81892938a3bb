"use strict";

/**
 * Lines and messages: what comes in is whole.
 *
 * Knows bytes and shapes; does not know sockets or sessions.
 */

const { RequestFailedError, UnreadableAnswerError } = require("./errors.js");
const { isInteger, parse } = require("./json.js");
const { isObject } = require("./table.js");

const MAX_FRAME = 9 * 2 ** 20; // bytes of a line
const NEWLINE = 10;

/** Splits a stream into lines; bytes that are no UTF-8, and a line over the limit, are an error. */
class Lines {
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
class InvalidCallError extends RequestFailedError {}

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
function readMessage(line) {
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

module.exports = { MAX_FRAME, Lines, InvalidCallError, readMessage };
