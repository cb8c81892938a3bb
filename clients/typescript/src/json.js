"use strict";

/**
 * JSON, strictly: what JSON.parse takes and other parsers read otherwise, or not at all, is an error here.
 *
 * That is a key that occurs twice in one object, a lone surrogate, a number out of range, and nesting without an end.
 */

const DEEPEST = 1000; // as in decisions.json
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const LONE_SURROGATE = /\p{Surrogate}/u;
const isWellFormed = /** @type {any} */ (String.prototype).isWellFormed; // Node 20, and without a look at each letter
const WORDS = new Map(Object.entries({ null: null, true: true, false: false }));

/** @type {WeakMap<object, Set<string>>} */
const fractions = new WeakMap(); // of each object the keys whose number was written as 3.0 or 3e0

/**
 * Return what a text says.
 *
 * @param {string} text
 * @returns {any}
 */
function parse(text) {
  const reader = new Reader(text);
  const value = reader.value(0);
  if (reader.next() !== "") throw new SyntaxError(`something follows its end, at character ${reader.at}`);
  return value;
}

/**
 * Return whether a key of a parsed object is an integer that all parsers read alike.
 *
 * @param {any} object
 * @param {string} key
 */
const isInteger = (object, key) => Number.isSafeInteger(object[key]) && !fractions.get(object)?.has(key);

/**
 * Return whether a text has half of a pair of surrogates, which UTF-8 cannot encode.
 *
 * @param {string} text
 * @returns {boolean}
 */
const hasLoneSurrogate = (text) => (isWellFormed ? !isWellFormed.call(text) : LONE_SURROGATE.test(text));

class Reader {
  at = 0;
  isFraction = false; // whether the value that was read last is a number that was written as one

  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }

  /** Skip blanks; return the character that follows, "" at the end. */
  next() {
    while (" \t\r\n".includes(this.text[this.at] ?? "end")) this.at++;
    return this.text[this.at] ?? "";
  }

  /**
   * @param {number} depth
   * @returns {any}
   */
  value(depth) {
    this.isFraction = false;
    switch (this.next()) {
      case "{":
        return this.#object(depth + 1);
      case "[":
        return this.#list(depth + 1);
      case '"':
        return this.#string();
      case "n":
      case "t":
      case "f":
        return this.#word();
      default:
        return this.#number();
    }
  }

  /** @param {number} depth */
  #object(depth) {
    if (depth > DEEPEST) throw new SyntaxError("it is nested too deep");
    /** @type {Record<string, any>} */
    const members = {};
    for (let end = this.#begun("}"); !end; end = this.#ended("}")) {
      if (this.next() !== '"') throw this.#wrong("a key is no text");
      const key = this.#string();
      if (Object.hasOwn(members, key)) throw this.#wrong(`the key ${JSON.stringify(key)} occurs twice in one object`);
      if (this.next() !== ":") throw this.#wrong("a key has no value");
      this.at++;
      const value = this.value(depth);
      if (this.isFraction) fractions.set(members, (fractions.get(members) ?? new Set()).add(key));
      // Not an assignment, which would make it the prototype.
      if (key === "__proto__") Object.defineProperty(members, key, { value, ...OWN });
      else members[key] = value;
    }
    return members;
  }

  /** @param {number} depth */
  #list(depth) {
    if (depth > DEEPEST) throw new SyntaxError("it is nested too deep");
    const values = [];
    for (let end = this.#begun("]"); !end; end = this.#ended("]")) values.push(this.value(depth));
    return values;
  }

  /** @param {string} mark */
  #begun(mark) {
    this.at++;
    const isEmpty = this.next() === mark;
    if (isEmpty) this.at++;
    return this.#isOver(isEmpty);
  }

  /** @param {string} mark */
  #ended(mark) {
    const found = this.next();
    if (found !== mark && found !== ",") throw this.#wrong("a list or an object does not go on");
    this.at++;
    return this.#isOver(found === mark);
  }

  /** @param {boolean} isOver */
  #isOver(isOver) {
    this.isFraction = false;
    return isOver;
  }

  #string() {
    const from = this.at;
    let end = from;
    do {
      end = this.text.indexOf('"', end + 1);
      if (end < 0) throw this.#wrong("a text does not end");
    } while (isEscaped(this.text, end));
    this.at = end + 1;
    const string = JSON.parse(this.text.slice(from, this.at));
    if (hasLoneSurrogate(string)) throw this.#wrong("a text holds a lone surrogate");
    return string;
  }

  #word() {
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    throw this.#wrong("no value begins where one should");
  }

  #number() {
    NUMBER.lastIndex = this.at;
    const found = NUMBER.exec(this.text);
    if (found === null) throw this.#wrong("no value begins where one should");
    const [text, part, power] = found;
    const number = Number(text);
    if (!Number.isFinite(number)) throw this.#wrong("a number is out of range");
    this.at += text.length;
    this.isFraction = part !== undefined || power !== undefined;
    return number;
  }

  /** @param {string} what */
  #wrong(what) {
    return new SyntaxError(`${what}, at character ${this.at}`);
  }
}

const OWN = { enumerable: true, configurable: true, writable: true };

/**
 * @param {string} text
 * @param {number} at
 */
function isEscaped(text, at) {
  let from = at;
  while (text[from - 1] === "\\") from--;
  return (at - from) % 2 === 1;
}

module.exports = { hasLoneSurrogate, isInteger, parse };
