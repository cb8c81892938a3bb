"use strict";

/**
 * The adapters' own functions, one for one, for the driver.
 *
 * Values of this language that JSON cannot say have tags, in commands and in what is reported:
 *
 *   {"$undefined": true}  {"$bigint": "12"}  {"$number": "NaN"}  {"$date": "2026-01-01T00:00:00.000Z"}
 *   {"$buffer": BASE64}   {"$map": [[KEY, VALUE], ...]}          {"$symbol": NAME}  {"$function": NAME}
 *   {"$long": N}, a text of so many characters
 *   {"$instance": CLASS, "with": {...}}   {"$self": true} (the object that holds it)
 *   {"$named": NAME, "is": VALUE}         a value that has this name: wherever the very same object is met again, it is
 *                                         reported as {"$named": NAME}; made once
 *
 * A function is what it does: {"answer": VALUE}; {"raise": TEXT}; {"pick": KEY}: answers with that key of its payload, and
 * {"claim_with": KEY} claims with it; {"set": KEY, "to": VALUE} sets a key of its payload in place, and {"set_within", "key",
 * "to"} one of a value there; {"wait": NAME}: answers once `release` has named it; {"count": KEY}: only the length of a text is kept.
 * "as" is its name in `called`. What it was called with is kept there.
 *
 *   {"do": "native", "call": METHOD, "arguments": [...], "handler": FUNCTION, "as": NAME}   what the caller is given;
 *      a clean-up function that is given is kept under "as"
 *   "serve" "event" "handler" "as", "fire" "event" "payload"   the same of a session without a dialect
 *   "cleanup" "as"        call that clean-up function
 *   "called" "as"         every payload with which that function was called so far; the list begins anew
 *   "sorted" "as" "by"    the same without an end, in the order of one of their keys
 *   "together" "runs": [{"call", "arguments"}]   several at once, and what each is given
 *   "load" "places"       load hooks and keep them: "hooks": {"$loaded": true} in later arguments are these very objects
 *   "same_hooks"          of each outcome of the last run which of the hooks passed it names: its number, or null
 *   "warnings"            what was said by process.emitWarning; the list begins anew
 *   "begin" "of" "as"     the call `of`, which is not waited for; "end" "as" waits, and gives what the caller is given
 *   "until" "waits"       once a function waits for this
 *   "release" "named"     let the functions go on that wait for this
 *   "files" "write" {PATH: TEXT or {"$buffer"} or {"$link": TARGET} or {"$mode": [TEXT, MODE]}}   in a folder of the driver's own,
 *      which is {"$place": PATH} in later arguments and "PLACE" in what is reported; "HERE" is the folder that the driver runs in
 */

const { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { dirname, join } = require("node:path");

/** @type {any} */
let adapter = null;
/** @type {any} */
let session = null;
/** @type {Map<string, any>} */
let named = new Map();
/** @type {Map<string, any[]>} */
let called = new Map();
/** @type {Map<string, () => void>} */
let cleanups = new Map();
/** @type {Map<string, (value?: any) => void>} */
let waiting = new Map();
/** @type {any[]} */
let loaded = [];
/** @type {any} */
let last = null;
/** @type {string[]} */
let warnings = [];
/** @type {Map<string, Promise<any>>} */
let begun = new Map();
let place = "";

/**
 * @param {any} opened
 * @param {any} adapterOfSession
 */
function begin(opened, adapterOfSession) {
  [session, adapter] = [opened, adapterOfSession];
  [named, called, cleanups, waiting, loaded, last] = [new Map(), new Map(), new Map(), new Map(), [], null];
  [warnings, begun] = [[], new Map()];
  end();
}

/** Remove the driver's folder. */
function end() {
  if (place) rmSync(place, { recursive: true });
  place = "";
}

/** @param {Error} warning */
const warned = (warning) => void warnings.push(warning.message);

/**
 * Return the value that a tagged form is of.
 *
 * @param {any} form
 * @param {any} holder
 * @returns {any}
 */
function valueOf(form, holder = undefined) {
  if (typeof form !== "object" || form === null) return form;
  if (Array.isArray(form)) {
    /** @type {any[]} */
    const list = [];
    for (const one of form) list.push(valueOf(one, list));
    return list;
  }
  const [tag] = Object.keys(form);
  switch (tag) {
    case "$undefined":
      return undefined;
    case "$bigint":
      return BigInt(form.$bigint);
    case "$number":
      return Number(form.$number);
    case "$date":
      return new Date(form.$date);
    case "$buffer":
      return Buffer.from(form.$buffer, "base64");
    case "$map":
      return new Map(form.$map.map((/** @type {any} */ pair) => valueOf(pair)));
    case "$symbol":
      return Symbol(form.$symbol);
    case "$function":
      return Object.defineProperty(() => form.$function, "name", { value: form.$function });
    case "$instance":
      return Object.assign(new { [form.$instance]: class {} }[form.$instance](), valueOf(form.with ?? {}));
    case "$self":
      return holder;
    case "$long":
      return "x".repeat(form.$long);
    case "$loaded":
      return loaded;
    case "$place":
      return join(place, form.$place);
    case "$named":
      if ("is" in form && !named.has(form.$named)) named.set(form.$named, valueOf(form.is));
      return named.get(form.$named);
  }
  /** @type {any} */
  const members = {};
  for (const [key, one] of Object.entries(form)) {
    const value = valueOf(one, members);
    Object.defineProperty(members, key, { value, enumerable: true, configurable: true, writable: true });
  }
  return members;
}

/**
 * Return the tagged form of a value.
 *
 * @param {any} value
 * @param {any[]} above
 * @returns {any}
 */
function formOf(value, above = []) {
  const [name] = [...named].find(([, one]) => one === value && typeof one === "object") ?? [];
  if (name !== undefined) return { $named: name };
  switch (typeof value) {
    case "undefined":
      return { $undefined: true };
    case "bigint":
      return { $bigint: String(value) };
    case "symbol":
      return { $symbol: value.description };
    case "function":
      return { $function: value.name };
    case "number":
      return Number.isFinite(value) ? value : { $number: String(value) };
  }
  if (typeof value === "string") {
    const text = place ? value.replaceAll(place, "PLACE") : value;
    return process.cwd() === "/" ? text : text.replaceAll(process.cwd(), "HERE");
  }
  if (typeof value !== "object" || value === null) return value;
  if (above.includes(value)) return { $self: true };
  const within = [...above, value];
  if (Array.isArray(value)) return value.map((one) => formOf(one, within));
  if (value instanceof Date) return { $date: value.toISOString() };
  if (Buffer.isBuffer(value)) return { $buffer: value.toString("base64") };
  if (value instanceof Map) return { $map: [...value].map((pair) => formOf(pair, within)) };
  const members = Object.fromEntries(Object.entries(value).map(([key, one]) => [key, formOf(one, within)]));
  const kind = Object.getPrototypeOf(value)?.constructor?.name ?? "Object";
  return kind === "Object" ? members : { $instance: kind, with: members };
}

/**
 * @param {any} does
 * @param {string} as
 */
function functionOf(does, as) {
  if (does === null || does.not_a_function) return does?.not_a_function ?? null;
  called.set(as, []);
  return async (/** @type {any} */ payload) => {
    called.get(as)?.push("count" in does ? payload[does.count].length : formOf(payload));
    if (does.wait) await new Promise((resolve) => waiting.set(does.wait, resolve));
    if ("set" in does) payload[does.set] = valueOf(does.to);
    if ("set_within" in does) payload[does.set_within][does.key] = valueOf(does.to);
    if ("raise" in does) throw new Error(does.raise);
    if ("claim_with" in does) return { handled: true, [does.claim_with]: payload[does.claim_with] };
    if ("pick" in does) return { [does.pick]: payload[does.pick] };
    return valueOf(does.answer);
  };
}

/**
 * @param {any} command
 * @param {string} as
 */
async function call({ call: method, arguments: given = [], handler }, as) {
  const [first, ...rest] = given.map((/** @type {any} */ one) => valueOf(one));
  const answer = adapter[method](first, ...(handler === undefined ? [] : [functionOf(handler, as)]), ...rest);
  if (typeof answer === "function") {
    cleanups.set(as, answer); // at once: a clean-up may come before anything was answered
    return "a function";
  }
  const result = await answer;
  last = { passed: first?.hooks ?? [], report: result };
  return result === undefined ? null : formOf(result);
}

/** @type {Record<string, (command: any) => any>} */
const OWN = {
  serve: ({ event, handler, as }) => session.serve(event, functionOf(handler, as)),
  async fire({ event, payload }) {
    return { ...(await session.fire(event, valueOf(payload))) };
  },
  cleanup: ({ as }) => void cleanups.get(as)?.(),
  called: ({ as }) => called.get(as)?.splice(0) ?? [],
  sorted: ({ as, by }) => called.get(as)?.sort((one, other) => (one[by] < other[by] ? -1 : 1)),
  async until({ waits }) {
    while (!waiting.has(waits)) await new Promise((resolve) => setImmediate(resolve));
  },
  together: ({ runs }) => Promise.all(runs.map((/** @type {any} */ one) => answerTo(one))),
  async load({ places }) {
    loaded = await adapter.loadHooks(valueOf(places));
    return formOf(loaded);
  },
  same_hooks: () =>
    last.report.outcomes.map((/** @type {any} */ { hook }) => {
      const at = last.passed.indexOf(hook);
      return at < 0 ? null : at;
    }),
  async warnings() {
    await new Promise((resolve) => setImmediate(resolve)); // emitted on the next tick
    return warnings.splice(0);
  },
  begin({ of, as, ...others }) {
    begun.set(as, call({ ...others, call: of }, as));
  },
  end: ({ as }) => begun.get(as),
  release: ({ named: name }) => void waiting.get(name)?.(),
  files({ write }) {
    place ||= mkdtempSync(join(tmpdir(), "hl-"));
    for (const [name, content] of Object.entries(write)) {
      const path = join(place, name);
      mkdirSync(dirname(path), { recursive: true });
      if (content.$link) symlinkSync(content.$link, path);
      else writeFileSync(path, content.$mode ? content.$mode[0] : valueOf(content));
      if (content.$mode) chmodSync(path, content.$mode[1]);
    }
  },
};

/** @param {any} command */
async function answerTo(command) {
  const own = OWN[command.call];
  const result = own ? await own(command) : await call(command, command.as ?? command.call);
  return result === undefined ? null : result;
}

/** @param {any} command */
const run = async (command) => ({ result: await answerTo(command) });

module.exports = { begin, end, run, warned };
