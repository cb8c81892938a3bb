"use strict";

/**
 * One connection: its unanswered requests, and whether the daemon at its other end is alive.
 *
 * When it ends, for whatever reason, every waiting request fails at once. A message that makes no sense ends it too:
 * nobody knows which request that would have answered.
 */

const { DaemonUnreachableError, UnreadableAnswerError } = require("./errors.js");
const { connected } = require("./peer.js");
const { InvalidCallError, Lines, MAX_FRAME, readMessage } = require("./wire.js");

const SMALL = 2 ** 16; // bytes of a line that the daemon holds beside its budget for large ones

/**
 * @typedef {{ interval: number, misses: number }} Liveness
 * @typedef {{ call: (params: any) => Promise<string>, announce: (params: any) => void, ended: () => void }} Owner
 * @typedef {{ resolve: (result: any) => void, reject: (error: unknown) => void, size: number }} Waiter
 * @typedef {{ number: number, line: string, size: number }} Queued
 */

class Link {
  /** @type {Map<number, Waiter | null>} */
  #unanswered = new Map(); // null where nobody waits for the answer
  /** @type {Queued[]} */
  #queue = [];
  /** @type {Queued[]} */
  #small = []; // fires that need not wait behind large requests: a hook that is called for one of those may fire them
  #lastNumber = 0;
  #waiting = 0;
  #inFlight = 0;
  #bytesInFlight = 0;
  #most = { requests: 1, bytes: SMALL };
  #missed = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #pulse;
  #lines = new Lines();

  /** @type {Error | null} */
  failure = null;

  /**
   * @param {import("node:net").Socket} socket
   * @param {Liveness} liveness
   * @param {Owner} owner
   */
  constructor(socket, liveness, owner) {
    this.#socket = socket;
    this.#liveness = liveness;
    this.#owner = owner;
    socket.on("data", (/** @type {Buffer} */ data) => this.#receive(data));
    socket.on("error", (error) => this.end(new DaemonUnreachableError(error.message)));
    socket.on("end", () => this.end(new DaemonUnreachableError("the daemon hung up")));
    socket.on("close", () => this.end(new DaemonUnreachableError("the daemon hung up")));
  }

  #socket;
  #liveness;
  #owner;

  /**
   * Connect to the first of `paths` where a daemon listens that may be believed.
   *
   * @param {string[]} paths
   * @param {number | undefined} daemonUid
   * @param {Liveness} liveness
   * @param {Owner} owner
   */
  static async open(paths, daemonUid, liveness, owner) {
    const failures = [];
    for (const path of paths) {
      try {
        return new Link(await connected(path, daemonUid), liveness, owner);
      } catch (error) {
        failures.push(`${path} (${error instanceof Error ? error.message : error})`);
      }
    }
    throw new DaemonUnreachableError(`no daemon is reachable at ${failures.join(", ")}`);
  }

  /**
   * Allow so many unanswered requests at a time, and so many bytes of large ones; others wait for their turn.
   *
   * @param {{ requests: number, bytes: number }} most
   */
  allow(most) {
    this.#most = most;
    this.#sendQueued();
  }

  /**
   * Return the result of a request.
   *
   * @param {string} method
   * @param {Record<string, string>} params JSON texts by key
   * @returns {Promise<any>}
   */
  request(method, params) {
    if (this.failure) return Promise.reject(this.failure);
    const line = this.#line(method, params);
    const bytes = Buffer.byteLength(line);
    if (bytes > MAX_FRAME) {
      return Promise.reject(new UnreadableAnswerError(`${method} would be a message over ${MAX_FRAME} bytes`));
    }
    const number = this.#lastNumber;
    const size = bytes > SMALL ? bytes : 0;
    return new Promise((resolve, reject) => {
      this.#unanswered.set(number, { resolve, reject, size });
      if (this.#waiting++ === 0) this.#watch();
      (method === "fire" && !size ? this.#small : this.#queue).push({ number, line, size });
      this.#sendQueued();
    });
  }

  /** Give up the connection: every waiting request fails now. Only the first failure counts. */
  end(/** @type {Error} */ failure) {
    if (this.failure) return;
    this.failure = failure;
    clearInterval(this.#pulse);
    const waiters = [...this.#unanswered.values()];
    this.#unanswered.clear();
    this.#socket.destroy();
    for (const waiter of waiters) waiter?.reject(failure);
    this.#owner.ended();
  }

  /**
   * @param {string} method
   * @param {Record<string, string>} params
   */
  #line(method, params) {
    const members = Object.entries(params).map(([key, json]) => `${JSON.stringify(key)}:${json}`);
    return `{"jsonrpc":"2.0","id":${++this.#lastNumber},"method":"${method}","params":{${members.join()}}}\n`;
  }

  #sendQueued() {
    while (this.#inFlight < this.#most.requests) {
      const next = this.#next();
      if (next === undefined) return;
      this.#inFlight++;
      this.#bytesInFlight += next.size;
      this.#socket.write(next.line);
    }
  }

  /** Take the request that may be sent now: the earlier one, unless it is a large one for which there is no room. */
  #next() {
    const [first] = this.#queue;
    const hasRoom = first && (!this.#bytesInFlight || this.#bytesInFlight + first.size <= this.#most.bytes);
    if (hasRoom && !(this.#small[0]?.number < first.number)) return this.#queue.shift();
    return this.#small.shift();
  }

  #watch() {
    this.#missed = 0;
    clearInterval(this.#pulse);
    this.#pulse = setInterval(() => this.#check(), this.#liveness.interval * 1000);
    this.#pulse.unref();
  }

  #check() {
    // Counted, not measured: a process that was suspended for a minute has missed one interval, not sixty.
    if (this.#missed >= this.#liveness.misses) {
      this.end(new DaemonUnreachableError("the daemon is connected but silent, even to pings"));
    } else if (this.#missed++ > 0) {
      const line = this.#line("ping", {});
      this.#unanswered.set(this.#lastNumber, null);
      this.#socket.write(line);
    }
  }

  /** @param {Buffer} data */
  #receive(data) {
    this.#missed = 0;
    try {
      for (const line of this.#lines.feed(data)) {
        if (this.failure) return;
        this.#take(readMessage(line));
      }
    } catch (error) {
      const why = error instanceof Error ? error.message : error;
      this.end(new UnreadableAnswerError(`the daemon sent what cannot be understood: ${why}`));
    }
  }

  /** @param {import("./wire.js").Answer | import("./wire.js").Request} message */
  #take(message) {
    if (message.kind === "answer") this.#settle(message);
    else if (message.id !== undefined) void this.#serve(message.id, message.method, message.params);
    else if (message.method === "announce") this.#owner.announce(message.params);
    // Any other notification is of a newer daemon, which may announce more than we know.
  }

  /** @param {import("./wire.js").Answer} answer */
  #settle({ id, result, error }) {
    const number = /** @type {number} */ (id);
    const waiter = this.#unanswered.get(number);
    if (waiter === undefined) throw new UnreadableAnswerError(`it answers request ${id}, which was never sent`);
    this.#unanswered.delete(number);
    if (waiter === null) return;
    this.#inFlight--;
    this.#bytesInFlight -= waiter.size;
    if (--this.#waiting === 0) clearInterval(this.#pulse);
    if (error) waiter.reject(error);
    else waiter.resolve(result);
    this.#sendQueued();
  }

  /**
   * @param {number | string} id
   * @param {string} method
   * @param {any} params
   */
  async #serve(id, method, params) {
    let body;
    try {
      if (method !== "call") throw new InvalidCallError(-32601, "method_not_found", `no client serves ${method}`);
      body = `"result":${await this.#owner.call(params)}`;
    } catch (error) {
      const [code, name] = error instanceof InvalidCallError ? [error.code, error.label] : [-32603, "internal_error"];
      const message = String(error).replace(/\p{Surrogate}/gu, "\ufffd");
      body = `"error":${JSON.stringify({ code, message, data: { name } })}`;
    }
    if (!this.failure) this.#socket.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${body}}\n`);
  }
}

module.exports = { Link };
