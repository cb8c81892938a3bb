"use strict";

/** What the client does by itself, without a daemon; by `npm test`. The rest is in tests/clients. */

const assert = require("node:assert");
const { mkdirSync, mkdtempSync, rmSync, symlinkSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { after, test } = require("node:test");

const { connect, refusesWhenUnknown } = require("hooklatch");
const { HookRegistry } = require("hooklatch/ethos");
const { loadHooks, openHooks } = require("hooklatch/reasonix");

const { readDecision } = require("../src/decisions.js");
const { encodeMarked, encodePlain } = require("../src/plain.js");
const { isStill, Terms } = require("../src/terms.js");

const folder = mkdtempSync(join(tmpdir(), "hl-"));
const nobody = { path: join(folder, "nobody.sock") };
after(() => rmSync(folder, { recursive: true }));
process.on("warning", () => undefined);

test("an import and a require get the same classes", async () => {
  for (const name of ["hooklatch", "hooklatch/ethos", "hooklatch/reasonix"]) {
    const [imported, required] = [await import(name), require(name)];
    assert.deepStrictEqual({ ...imported }, { ...required });
  }
});

test("without a daemon a gate denies, and all else passes", async () => {
  const session = await connect(nobody);
  const gate = await session.fire("pre_tool_use", { tool_name: "t", tool_input: {} });
  const note = await session.fire("post_tool_use", { tool_name: "t", tool_response: Buffer.from("x") });
  await session.close();

  assert.deepStrictEqual([gate.allowed, gate.cause, gate.isLocal], [false, "no_daemon", true]);
  assert.match(
    gate.asToolResult("t").content,
    /^Not run: hooklatch is not running.* no judgement of this call.* tell the user/,
  );
  assert.deepStrictEqual([note.allowed, note.explanation], [true, "post_tool_use allowed: pass"]);
  assert.ok(refusesWhenUnknown("a name that nobody knows"));
});

test("a command to run instead is the model's next step", () => {
  const names = ["layer", "hook", "patch", "payload_digest", "append", "resume", "value"];
  const nothing = Object.fromEntries(names.map((name) => [name, null]));
  const wire = { ...nothing, decision_id: "d1", event: "pre_tool_use", verdict: "deny", cause: "policy", reason: "no" };
  const answer = { ...wire, retryable: false, revision: 7, duration_ms: 1, instead: "ls" };
  assert.equal(readDecision(answer, "pre_tool_use", false).forModel, "no\nInstead, run: ls");
});

test("a fire that is given up is a deny, and nothing is thrown", async () => {
  const session = await connect(nobody);
  const decision = await session.fire("pre_tool_use", {}, { signal: AbortSignal.abort("enough") });
  await session.close();

  assert.deepStrictEqual([decision.verdict, decision.cause], ["deny", "abandoned"]);
  assert.match(decision.reason ?? "", /enough/);
});

test("settings that nobody can read block, and files that are not there are no hooks", async () => {
  const none = await loadHooks({ ...nobody, projectRoot: folder, homeDir: folder });
  const home = join(folder, "home");
  mkdirSync(join(home, ".reasonix"), { recursive: true });
  symlinkSync("nothing", join(home, ".reasonix/settings.json"));
  const hooks = await openHooks(nobody);
  const [unread] = await hooks.loadHooks({ homeDir: home });
  const { blocked } = await hooks.runHooks({ hooks: [unread], payload: { event: "PreToolUse", toolName: "t" } });
  await hooks.close();

  assert.deepStrictEqual(none, []);
  assert.deepStrictEqual([unread.event, unread.scope, blocked], ["*", "global", true]);
  assert.match(unread.problem ?? "", /could not be read: ENOENT/);
});

test("Ethos' points without a daemon: a gate refuses, an open point amends nothing", async () => {
  const registry = new HookRegistry(await connect({ ...nobody, dialect: "ethos" }));
  const { error } = await registry.fireModifying("before_tool_call", { toolName: "t", args: {} });
  const amended = await registry.fireModifying("before_prompt_build", { history: [] });
  await registry.close();

  assert.match(error ?? "", /no daemon is reachable/);
  assert.deepStrictEqual(amended, {});
});

test("what JSON cannot say is refused with the path of its key", () => {
  const circle = {};
  Object.assign(circle, { circle });
  for (const [value, path] of /** @type {[unknown, string][]} */ ([
    [{ a: [1, new Date(0)] }, "payload.a[1] is a Date, which JSON cannot say"],
    [{ a: { b: 1n } }, "payload.a.b is a bigint, which JSON cannot say"],
    [{ a: NaN }, "payload.a is NaN, which JSON cannot say"],
    [{ a: [undefined] }, "payload.a[0] is undefined, which JSON cannot say"],
    [circle, "payload.circle is nested too deep, or holds itself"],
    [{ a: "\ud800" }, "payload.a contains a lone surrogate, which UTF-8 cannot encode"],
    [{ a: new (class Turn {})() }, "payload.a is a Turn, which JSON cannot say"],
    [
      {
        get a() {
          throw new Error("no");
        },
      },
      "payload.a cannot be read: Error: no",
    ],
  ])) {
    assert.throws(() => encodePlain(value, "payload"), { message: path });
  }
});

test("where nothing can be refused it has a mark in its place", () => {
  const marked = JSON.parse(
    encodeMarked({ at: new Date(0), n: 1n, f: function named() {}, m: new Map(), b: Buffer.from("é"), u: undefined }),
  );

  assert.deepStrictEqual(marked, {
    at: { $native: "Date", text: "1970-01-01T00:00:00.000Z" },
    n: { $native: "bigint", text: "1" },
    f: { $native: "function", text: "named" },
    m: { $native: "Map" },
    b: { $native: "Buffer", text: "é" },
  });
  assert.strictEqual(JSON.parse(encodeMarked(["\ud800".repeat(999)]))[0].text, "\ufffd".repeat(200));
  assert.strictEqual(
    encodeMarked(Object.defineProperty({}, "__proto__", { value: 1, enumerable: true })),
    '{"__proto__":1}',
  );
});

test("what comes back as it went out is the very value, and of what was changed the rest", () => {
  const payload = { message: { at: new Date(0), text: "hi", u: undefined }, list: [new Map(), 2] };
  const terms = new Terms(payload, false, 1000);
  const now = JSON.parse(terms.json);

  assert.strictEqual(terms.shown(JSON.parse(terms.json)), payload);
  now.message.text = "bye";
  const shown = terms.shown(now);
  assert.deepStrictEqual(shown, { message: { at: payload.message.at, text: "bye", u: undefined }, list: payload.list });
  assert.strictEqual(shown.message.at, payload.message.at);
  assert.strictEqual(shown.list, payload.list);
  assert.strictEqual(terms.shown({ ...now, list: undefined }).message.at, payload.message.at);
});

test("an answer is given back as it was, and what was changed in place is seen", () => {
  const terms = new Terms({ args: { command: "ls" } }, true, 1000);
  const answer = { args: { command: "rm", u: undefined } };
  terms.answered("mine", answer);

  assert.strictEqual(terms.native("args", { command: "rm" }), answer.args);
  assert.ok(isStill(answer.args, { command: "rm" }));
  answer.args.command = "rm -rf";
  assert.ok(!isStill(answer.args, { command: "rm" }));
});
