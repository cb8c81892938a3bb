"use strict";

/**
 * Which hooks of Reasonix' lists are registered, and for which runs.
 *
 * The daemon has one set of hooks for a session, and each run brings a list of its own. So the hooks of an event are
 * exchanged only while no run of that event is under way with others: a run waits for those, and shares the hooks with
 * runs that brought the same. Hooks of other events are left to their own runs.
 */

const { createHash } = require("node:crypto");

const { RequestFailedError } = require("./errors.js");
const { encodePlain } = require("./plain.js");
const { isObject } = require("./table.js");

/**
 * @typedef {import("../types/index.js").Session} Session
 * @typedef {import("./warnings.js").Warnings} Warnings
 * @typedef {Record<string, any>} Wire
 */

/** @type {WeakMap<Session, Map<string, Group>>} */
const groupsOf = new WeakMap(); // several adapters of one session have one set of hooks

class InUse {
  #session;
  #events;
  #warnings;
  /** @type {Map<string, Group>} */
  #groups;

  /**
   * @param {Session} session
   * @param {string[]} events those that are known; a hook on any other is for all of them
   * @param {Warnings} warnings
   */
  constructor(session, events, warnings) {
    this.#session = session;
    this.#warnings = warnings;
    this.#events = new Set(events);
    this.#groups = groupsOf.get(session) ?? new Map();
    groupsOf.set(session, this.#groups);
  }

  /**
   * Do something while the hooks of one event are those of a list, and no others.
   *
   * @template T
   * @param {any[]} hooks
   * @param {string} event
   * @param {(hookOf: (id: string) => any) => Promise<T>} action
   * @returns {Promise<T>}
   */
  async while(hooks, event, action) {
    const groupOf = (/** @type {any} */ hook) => (this.#events.has(hook?.event) ? hook.event : "");
    // In this order everywhere, so that no two runs wait for each other.
    const everywhere = hooks.filter((hook) => groupOf(hook) === "");
    const own = this.#events.has(event) ? hooks.filter((hook) => groupOf(hook) === event) : [];
    return this.#group("").while(everywhere, (hookOf) =>
      this.#group(event).while(own, (ownHookOf) => action((id) => ownHookOf(id) ?? hookOf(id))),
    );
  }

  /** @param {string} name */
  #group(name) {
    const group = this.#groups.get(name) ?? new Group(this.#session, this.#warnings);
    this.#groups.set(name, group);
    return group;
  }
}

/** The hooks of one event. */
class Group {
  #session;
  #warnings;
  #registered = ""; // what was registered last, as JSON; "?" where that failed
  /** @type {(string | null)[]} */
  #ids = [];
  /** @type {(string | null)[]} */
  #stale = []; // what is still to be taken off
  #users = 0;
  #turn = Promise.resolve();
  #isFree = Promise.resolve();
  #free = () => {};

  /**
   * @param {Session} session
   * @param {Warnings} warnings
   */
  constructor(session, warnings) {
    this.#session = session;
    this.#warnings = warnings;
  }

  /**
   * @template T
   * @param {any[]} hooks
   * @param {(hookOf: (id: string) => any) => Promise<T>} action
   * @returns {Promise<T>}
   */
  async while(hooks, action) {
    const wires = wiresOf(hooks);
    for (const { problem } of wires.filter((_, at) => !hooks[at]?.problem)) if (problem) this.#warnings.warn(problem);
    const wanted = wires.length ? JSON.stringify(wires) : "";
    const turn = this.#turn.catch(() => undefined).then(() => this.#use(wires, wanted));
    this.#turn = turn;
    await turn;
    const ids = this.#ids;
    try {
      return await action((id) => hooks[ids.indexOf(id)]);
    } finally {
      if (--this.#users === 0) this.#free();
    }
  }

  /**
   * Register these hooks in the place of those that are, once nobody uses those.
   *
   * @param {Wire[]} wires
   * @param {string} wanted
   */
  async #use(wires, wanted) {
    if (wanted !== this.#registered) {
      if (this.#users) await this.#isFree;
      await this.#exchange(wires);
      this.#registered = wanted;
    }
    if (this.#users++ === 0) this.#isFree = new Promise((resolve) => (this.#free = () => resolve(undefined)));
  }

  /** @param {Wire[]} wires */
  async #exchange(wires) {
    this.#registered = "?";
    const { ids, refused } = wires.length ? await this.#session.registerEach(wires) : { ids: [], refused: [] };
    for (const { reason } of refused) this.#warnings.warn(`a hook was refused: ${reason}`);
    // Nobody knows the event of these, so they stand in at every gate.
    const strange = refused.filter(({ id }) => id === null);
    const standIns = strange.map(({ at, reason }) => ({ id: wires[at].id, event: "*", problem: reason }));
    if (standIns.length) {
      const made = await this.#session.registerEach(standIns);
      strange.forEach(({ at }, number) => (ids[at] = made.ids[number]));
    }
    const before = [...this.#stale, ...this.#ids];
    this.#ids = ids;
    for (this.#stale = before.filter((id) => !ids.includes(id)); this.#stale.length; this.#stale.shift()) {
      await this.#remove(this.#stale[0]);
    }
  }

  /** @param {string | null} id */
  async #remove(id) {
    try {
      if (id !== null) await this.#session.unregister(id);
    } catch (error) {
      if (!(error instanceof RequestFailedError && error.label === "not_found")) throw error;
    }
  }
}

/**
 * Return the definitions of hooks, with ids of their own. What cannot be sent is a hook that could not be made.
 *
 * @param {any[]} hooks
 * @returns {Wire[]}
 */
function wiresOf(hooks) {
  const wires = hooks.map(wireOf);
  const digest = createHash("sha256").update(JSON.stringify(wires)).digest("hex").slice(0, 8);
  return wires.map((wire, at) => ({ ...wire, id: `${nameOf(wire, hooks[at])}-${at + 1}-${digest}` }));
}

/**
 * A key that the daemon does not know is refused there: what it says may be what makes the hook a guard.
 *
 * @param {any} hook
 * @returns {Wire}
 */
function wireOf(hook) {
  if (!isObject(hook)) return unusable({}, `it is no object, but ${hook}`);
  const { scope, source, id, ...own } = hook;
  // The line of a hook that has words of a command, or nothing to run, is for people.
  if (own.problem !== undefined || own.argv !== undefined) delete own.command;
  try {
    // Without a target the daemon would take it for a hook that this process serves.
    if ([own.command, own.argv, own.run, own.problem].every((one) => one === undefined))
      throw new Error("nothing to run");
    return JSON.parse(encodePlain(own, "the hook"));
  } catch (error) {
    return unusable(own, error instanceof Error ? error.message : String(error));
  }
}

/**
 * Return the definition of a hook that could not be made, for the tools that it is about.
 *
 * @param {Wire} hook
 * @param {string} why
 */
function unusable({ event, match }, why) {
  const known = typeof event === "string" ? event : "*";
  const problem = `a hook on ${known} cannot be used: ${why}`;
  return { event: known, ...(typeof match === "string" && known !== "*" && { match }), problem };
}

/**
 * @param {Wire} wire
 * @param {any} hook
 */
function nameOf(wire, hook) {
  const name = typeof hook?.id === "string" && hook.id ? hook.id : `${hook?.scope ?? "own"}-${wire.event}`;
  return name.replace(/[^A-Za-z0-9_.:+-]/g, "_").slice(0, 150);
}

module.exports = { InUse };
