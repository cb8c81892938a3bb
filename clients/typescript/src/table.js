"use strict";

/**
 * Which decisions the daemon writes: decisions.json, which is made from the daemon's own code (clients/README.md).
 */

const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const { isInteger, parse } = require("./json.js");

const TABLE = parse(readFileSync(join(__dirname, "decisions.json"), "utf8"));

/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Return whether an event can refuse; so can one that nobody here knows.
 *
 * @param {string} event
 */
const refusesWhenUnknown = (event) => !Object.hasOwn(TABLE.events, event) || TABLE.events[event] === "gate";

/**
 * Return why a parsed answer is no decision of the daemon, "" if it is one.
 *
 * @param {any} answer
 * @returns {string}
 */
const faultOf = (answer) => unshaped(answer, "decision") || misfit(answer);

/** @param {Record<string, any>} answer */
function misfit(answer) {
  const { event, verdict, cause, retryable } = answer;
  const said = `${verdict} with cause ${cause}`;
  // Of an event that this client does not know, any model's combination may be right.
  const model = Object.hasOwn(TABLE.events, event) ? TABLE.events[event] : undefined;
  let problem = `${said} is no decision on ${event}`;
  for (const row of TABLE.combinations) {
    if (row.verdict !== verdict || row.cause !== cause || row.model !== (model ?? row.model)) continue;
    const missing = row.set.find((/** @type {string} */ key) => answer[key] === null);
    const wrong = row.null.find((/** @type {string} */ key) => answer[key] !== null);
    if (row.retryable !== retryable) problem = `its retryable is ${retryable}`;
    else if (missing !== undefined) problem = `its ${missing} is null`;
    else if (wrong !== undefined) problem = `${said} has no ${wrong}`;
    else return "";
  }
  return problem;
}

/**
 * @param {any} value
 * @param {string} kind
 */
function unshaped(value, kind) {
  if (!isObject(value)) return `the ${kind} is no object`;
  const { always, sometimes } = TABLE[kind];
  const missing = Object.keys(always).find((key) => !Object.hasOwn(value, key));
  if (missing !== undefined) return `its ${missing} is missing`;
  const words = Object.entries({ ...always, ...sometimes });
  const wrong = words.find(([key, word]) => Object.hasOwn(value, key) && !fits(value, key, word));
  return wrong === undefined ? "" : `its ${wrong[0]} is no ${wrong[1]}`;
}

/**
 * @param {any} object
 * @param {string} key
 * @param {string} word
 * @returns {boolean}
 */
function fits(object, key, word) {
  const value = object[key];
  switch (word) {
    case "any":
      return true;
    case "text":
      return typeof value === "string";
    case "flag":
      return typeof value === "boolean";
    case "integer":
      return isInteger(object, key);
    case "number":
      return typeof value === "number";
    case "object":
      return isObject(value);
    case "head":
      return !unshaped(value, word);
    case "texts":
      return Array.isArray(value) && value.every((one) => typeof one === "string");
    case "objects":
      return Array.isArray(value) && value.every(isObject);
    case "outcomes":
      return Array.isArray(value) && value.every((one) => !unshaped(one, "outcome"));
    case "decisions":
      return Array.isArray(value) && value.every((one) => !faultOf(one));
    default: // ends with "?"
      return value === null || fits(object, key, word.slice(0, -1));
  }
}

/** @type {Record<string, [string, string]>} */
const TOLD = TABLE.told; // by cause: what a model is told of a failure, before and after why
/** @type {string} */
const INSTEAD = TABLE.instead; // between a hook's own reason and the command that it names

module.exports = { INSTEAD, TOLD, faultOf, isObject, refusesWhenUnknown };
