"use strict";

/**
 * Keeps a link to a daemon, and gets another one when it is lost.
 *
 * no link ──attempt: connect, introduce──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off
 *
 * A request that finds the link just lost waits for the first attempt to get another; after that attempt, and until a
 * later one succeeds, every request fails at once. Whoever waits holds the process; a link that nobody waits for does not.
 */

const { DaemonUnreachableError } = require("./errors.js");
const { Link } = require("./link.js");

const FIRST_RETRY = 50; // milliseconds
const LAST_RETRY = 5000;

/**
 * @typedef {import("./link.js").Owner} LinkOwner
 * @typedef {object} Owner
 * @property {(link: Link) => Promise<() => void>} introduce says hello; what it gives is called once the link counts
 * @property {LinkOwner["call"]} call
 * @property {LinkOwner["announce"]} announce
 * @property {(failure: Error) => void} lost
 */

class Reconnector {
  #paths;
  #daemonUid;
  #liveness;
  #owner;
  /** @type {Link | null} */
  #link = null;
  /** @type {Link | null} */
  #newest = null;
  #settled = Promise.resolve();
  #settle = () => {};
  #waiting = 0; // requests that wait for the attempt to get a link
  #attempts = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #retry;
  #problem = "no attempt to connect was made yet";
  #isClosed = false;

  /**
   * @param {string[]} paths
   * @param {number | undefined} daemonUid
   * @param {import("./link.js").Liveness} liveness
   * @param {Owner} owner
   */
  constructor(paths, daemonUid, liveness, owner) {
    this.#paths = paths;
    this.#daemonUid = daemonUid;
    this.#liveness = liveness;
    this.#owner = owner;
  }

  get link() {
    return this.#link;
  }

  /** Try once to get a link. */
  async attempt() {
    try {
      /** @type {Link | null} */
      let link = null;
      const { call, announce } = this.#owner;
      const owner = { call, announce, ended: () => this.#lost(link) };
      link = await Link.open(this.#paths, this.#daemonUid, this.#liveness, owner);
      this.#newest = link;
      if (this.#isClosed) link.end(new DaemonUnreachableError("the session was closed"));
      try {
        const counts = await this.#owner.introduce(link);
        if (link.failure) throw link.failure;
        this.#link = link;
        this.#attempts = 0;
        counts();
      } catch (error) {
        link.end(new DaemonUnreachableError(String(error)));
        throw error;
      }
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error);
      throw error;
    }
  }

  tryLater() {
    if (this.#isClosed) return this.#settle();
    const longest = Math.min(LAST_RETRY, FIRST_RETRY * 2 ** Math.min(this.#attempts++, 16));
    const again = () => this.attempt().then(this.#settle, () => (this.#settle(), this.tryLater()));
    this.#retry = setTimeout(again, longest * (1 - Math.random() / 2));
    if (!this.#waiting) this.#retry.unref(); // idle, it does not hold the process
  }

  /**
   * @param {string} method
   * @param {Record<string, string>} params
   */
  async request(method, params) {
    if (!this.#link) await this.#attempted();
    if (this.#isClosed) throw new DaemonUnreachableError("the session is closed; open another one");
    if (!this.#link) throw new DaemonUnreachableError(this.#problem);
    return this.#link.request(method, params);
  }

  /** Make no more attempts; requests that wait for one fail. */
  stop() {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    this.#settle();
  }

  /** Give up the link, and one that is about to be. */
  end() {
    this.#newest?.end(new DaemonUnreachableError("the session was closed"));
  }

  async #attempted() {
    this.#waiting++;
    this.#retry?.ref();
    await this.#settled;
    if (--this.#waiting === 0) this.#retry?.unref();
  }

  /** @param {Link | null} link */
  #lost(link) {
    if (link === null || this.#link !== link) return;
    this.#link = null;
    const failure = link.failure ?? new DaemonUnreachableError("the daemon hung up");
    this.#problem = failure.message;
    this.#settled = new Promise((resolve) => (this.#settle = () => resolve(undefined)));
    this.tryLater();
    this.#owner.lost(failure);
  }
}

module.exports = { Reconnector };
