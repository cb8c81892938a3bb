"""A process of Node around the client: what holds it, what it may have in flight, how it gives up and is told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from clients.conftest import RealDaemon
from clients.programs import CLIENTS, command_of
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow  # processes of Node, and daemons

PATIENCE = 60  # seconds for a script
BEGIN = """
const { connect, Session } = require(process.env.CLIENT);
const { HookRegistry, openHookRegistry } = require(process.env.CLIENT + "/src/ethos.js");
const { Hooks } = require(process.env.CLIENT + "/src/reasonix.js");
const { execFileSync } = require("node:child_process");
const { existsSync } = require("node:fs");
const [path, pid, file] = process.argv.slice(2);
const call = { tool_name: "t", tool_input: { command: "ls" } };
const say = (value) => console.log(JSON.stringify(value));
const turn = () => new Promise((resolve) => setImmediate(resolve));
(async () => {
"""
END = "\n})();\n"
Script = Callable[[str], list[Any]]


@pytest.fixture
def daemon(tmp_path: Path) -> Generator[RealDaemon]:
    with nobody_survives():
        running = RealDaemon(tmp_path)
        yield running
        running.end()


@pytest.fixture
def run(daemon: RealDaemon, tmp_path: Path) -> Script:
    def script(text: str) -> list[Any]:
        """Run a script by the daemon to its own end; return what it has said."""
        program = tmp_path / "script.js"
        program.write_text(BEGIN + text + END)
        command = [command_of("typescript")[0], str(program), daemon.path, str(daemon.pid), str(tmp_path / "file")]
        done = subprocess.run(
            command, env={"CLIENT": str(CLIENTS / "typescript"), "PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return script


def test_a_fire_that_waits_for_a_daemon_holds_the_process_until_it_is_answered(run: Script) -> None:
    said = run("""
  const session = await connect({ path });
  execFileSync("kill", ["-9", pid]);
  for (let n = 0; n < 3; n++) {
    const { verdict, cause } = await session.fire("pre_tool_use", call);
    say([verdict, cause]);
  }
""")

    assert said == [["deny", "no_daemon"]] * 3


def test_a_registry_and_a_request_hold_the_process_too(run: Script) -> None:
    said = run("""
  const session = await connect({ path, dialect: "ethos" });
  const registry = new HookRegistry(session);
  execFileSync("kill", ["-9", pid]);
  await session.request("ping").catch((error) => say(error.name));
  registry.registerModifying("before_tool_call", async () => null);
  say(Object.keys(await registry.fireModifying("before_tool_call", { toolName: "t", args: {} })));
""")

    assert said == ["DaemonUnreachableError", ["error"]]


def test_a_fire_in_flight_when_its_session_is_closed_is_answered(run: Script) -> None:
    said = run("""
  const session = await connect({ path });
  execFileSync("kill", ["-9", pid]);
  await new Promise((resolve) => session.on("lost", resolve));
  const fired = session.fire("pre_tool_use", call);
  await session.close();
  say((await fired).verdict);
""")

    assert said == ["deny"]


def test_an_idle_session_that_waits_for_a_daemon_does_not_hold_the_process(run: Script) -> None:
    assert run('say((await connect({ path: file + ".sock" })).isConnected)') == [False]


def test_fifty_fires_of_a_megabyte_at_once_are_all_decided(run: Script) -> None:
    said = run("""
  const session = await connect({ path });
  const odd = { verdict: "deny", reason: "odd" };
  await session.serve("pre_tool_use", ({ tool_input: { n } }) => (n % 2 ? odd : null), { timeout: 60 });
  const fires = Array.from({ length: 50 }, (_, n) =>
    session.fire("pre_tool_use", { tool_name: "t", tool_input: { n, text: "x".repeat(2 ** 20) } }));
  say((await Promise.all(fires)).map(({ verdict, cause, reason }) => [verdict, cause, reason]));
  await session.close();
""")

    assert said == [[["deny", "policy", "odd"] if n % 2 else ["pass", None, None] for n in range(50)]]


def test_a_hook_that_fires_while_large_fires_wait_for_their_turn_is_answered(run: Script) -> None:
    said = run("""
  const session = await connect({ path });
  await session.serve("pre_tool_use", async () => {
    const { allowed } = await session.fire("user_prompt_submit", { prompt: "may I?" });
    return allowed ? null : { verdict: "deny", reason: "it may not" };
  }, { timeout: 60 });
  const fires = Array.from({ length: 40 }, () =>
    session.fire("pre_tool_use", { tool_name: "t", tool_input: { text: "x".repeat(2 ** 20) } }));
  say((await Promise.all(fires)).filter(({ allowed }) => !allowed).map(({ reason }) => reason));
  await session.close();
""")

    assert said == [[]]


def test_a_fire_that_is_given_up_is_a_deny_and_the_session_goes_on(run: Script) -> None:
    said = run("""
  const session = await connect({ path });
  const stop = new AbortController();
  const waiting = session.fire("pre_tool_use", { tool_name: "Shell", tool_input: { command: `wait ${file}` } }, stop);
  while (!existsSync(file)) await turn();
  stop.abort("enough");
  const { verdict, cause, reason, isLocal } = await waiting;
  say([verdict, cause, reason.includes("enough"), isLocal]);
  say((await session.fire("pre_tool_use", call, { signal: new AbortController().signal })).verdict);
  await session.close();
""")

    assert said == [["deny", "abandoned", True, True], "pass"]


def test_the_adapters_calls_that_are_given_up_refuse_too(run: Script) -> None:
    said = run("""
  const signal = AbortSignal.abort("enough");
  const registry = new HookRegistry(await connect({ path, dialect: "ethos" }));
  const hooks = new Hooks(await connect({ path, dialect: "reasonix" }));
  say((await registry.fireModifying("before_tool_call", { toolName: "t", args: {} }, undefined, { signal })).error);
  say((await hooks.runHooks({ payload: { event: "PreToolUse", toolName: "t" }, signal })).blocked);
  say(await registry.fireModifying("before_tool_call", { toolName: "t", args: {} }));
  await registry.close();
  await hooks.close();
""")

    assert "enough" in said[0]
    assert said[1:] == [True, {}]


def test_a_session_tells_of_its_states(run: Script) -> None:
    said = run("""
  const session = new Session({ path });
  for (const event of ["connected", "lost", "closed"]) session.on(event, (why) => say([event, why instanceof Error]));
  const unheard = () => say("never");
  session.on("lost", unheard).off("lost", unheard);
  await session.open();
  const lost = new Promise((resolve) => session.once("lost", resolve));
  execFileSync("kill", ["-9", pid]);
  await lost;
  await session[Symbol.asyncDispose]();
  say(session.isClosed);
""")

    assert said == [["connected", False], ["lost", True], ["closed", False], True]


def test_two_adapters_of_one_session_take_no_hooks_from_each_other(run: Script) -> None:
    said = run("""
  const session = await connect({ path, dialect: "reasonix" });
  const [one, other] = [new Hooks(session), new Hooks(session)];
  const payload = { event: "PreToolUse", toolName: "t", toolArgs: {} };
  const guard = [{ event: "PreToolUse", command: "exit 2", scope: "project", source: "x" }];
  const none = [{ event: "PreToolUse", command: "exit 0", scope: "project", source: "x" }];
  const blocked = async (hooks, list) => (await hooks.runHooks({ hooks: list, payload })).blocked;
  const turns = [[one, guard], [other, guard], [other, none], [one, guard]];
  for (const [hooks, list] of turns) say(await blocked(hooks, list));
  const runs = Array.from({ length: 10 }, (_, at) => (at % 2 ? blocked(one, guard) : blocked(other, none)));
  say(await Promise.all(runs));
  await session.close();
""")

    assert said == [True, True, False, True, [False, True] * 5]


def test_a_run_that_waits_for_another_may_be_given_up_and_keeps_nobody_from_the_next(run: Script) -> None:
    said = run("""
  const session = await connect({ path, dialect: "reasonix" });
  const hooks = new Hooks(session);
  const payload = { event: "PreToolUse", toolName: "t", toolArgs: {} };
  const listOf = (command) => [{ event: "PreToolUse", command, scope: "project", source: "x" }];
  const slow = hooks.runHooks({ hooks: listOf(`until test -e ${file}; do sleep 0.02; done`), payload });
  const ending = new AbortController();
  const waiting = hooks.runHooks({ hooks: listOf("exit 0"), payload, signal: ending.signal });
  await turn();
  ending.abort();
  const { blocked, outcomes } = await waiting;
  say([blocked, outcomes[0].stderr.includes("gave it up")]);
  execFileSync("touch", [file]);
  say((await slow).blocked);
  say((await hooks.runHooks({ hooks: listOf("exit 2"), payload })).blocked);
  say((await hooks.runHooks({ hooks: listOf("exit 0"), payload })).blocked);
  await session.close();
""")

    assert said == [[True, True], False, True, False]


def test_a_fire_that_waits_for_a_registration_may_be_given_up(run: Script) -> None:
    said = run("""
  const registry = new HookRegistry(await connect({ path, dialect: "ethos" }));
  execFileSync("kill", ["-STOP", pid]);
  registry.registerModifying("before_tool_call", async () => null);
  const ending = new AbortController();
  const fire = registry.fireModifying("before_tool_call", { toolName: "t", args: {} }, [], { signal: ending.signal });
  await turn();
  ending.abort();
  say((await fire).error.includes("gave it up"));
  execFileSync("kill", ["-CONT", pid]);
  say(await registry.fireModifying("before_tool_call", { toolName: "t", args: {} }));
  await registry.close();
""")

    assert said == [True, {}]


def test_a_registry_that_knows_no_daemon_counts_every_point_and_looks_once_there_is_one(run: Script) -> None:
    said = run("""
  const has = () => [["modifying", "before_tool_call"], ["void", "agent_done"], ["void", "before_tool_call"]]
    .map(([model, point]) => registry.hasHandlers(model, point));
  const registry = new HookRegistry(await connect({ path, dialect: "ethos" }));
  say(has());
  await registry.refresh();
  say(has());
  await registry.close();
  execFileSync("kill", ["-9", pid]);
  const later = await openHookRegistry({ path });
  say(later.hasHandlers("modifying", "before_tool_call"));
  await later.close();
""")

    assert said == [[True, True, False], [True, False, False], True]


def test_a_child_whose_parent_is_not_known_gates_nothing_by_itself(run: Script) -> None:
    said = run("""
  const parent = await connect({ path });
  await parent.serve("pre_tool_use", () => ({ verdict: "deny", reason: "the parent's" }));
  const { sessionId, childToken } = parent;
  for (const text of [`${childToken} ${sessionId}`, childToken, "garbage", `${childToken} `, " "]) {
    process.env.HOOKLATCH_PARENT = text;
    const fired = async (child) => [(await child.fire("pre_tool_use", call)).reason, await child.close()];
    say(await connect({ path }).then(fired, (error) => error.name));
  }
  delete process.env.HOOKLATCH_PARENT;
  for (const unknown of [{}, { sessionId: null, childToken: null }, new Session({ path: file })]) {
    const child = await connect({ path, parent: unknown });
    const { verdict, cause } = await child.fire("pre_tool_use", call);
    say([verdict, cause, child.isConnected]);
    await child.close();
  }
  for (const parent of [undefined, null]) {
    const alone = await connect({ path, parent });
    say((await alone.fire("pre_tool_use", call)).verdict);
    await alone.close();
  }
  await parent.close();
""")

    assert said[:5] == [["the parent's", None], *["TypeError"] * 4]
    assert said[5:] == [*[["deny", "no_daemon", False]] * 3, "pass", "pass"]
