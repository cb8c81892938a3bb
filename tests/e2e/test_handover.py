"""One daemon after another on the same listening sockets, under load: no call is lost, none is answered wrongly.

Every gate is answered by policy, or denied with cause draining or no_daemon.  The clients reconnect without help.
Slow: it starts four daemons and fires all the while.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import hooklatch
from hooklatch.core.refusal_texts import TOLD, frame_for_model
from hooklatch.entry.commands import make_entry_command
from hooklatch.entry.refusals import MODEL, frame_reason
from support.commands import Started
from support.daemons import Client
from support.service_manager import Manager, managing

pytestmark = pytest.mark.slow

GUARD = """
from hooklatch import allow, deny, hook

@hook("pre_tool_use", match=["Bash", "Read"])
def judge(event):
    number = event.tool_input["number"]
    return deny(f"no {number}") if event.tool_name == "Bash" else allow(f"fine {number}")
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARD}
LOCAL = ("draining", "no_daemon")
# What the entry of an agent says of each, to the model.
LOCALLY_TOLD = {
    frame_for_model(TOLD["draining"], "")[0]: "draining",
    **{frame_reason(cause, MODEL)[0]: "no_daemon" for cause in ("no_daemon", "hung_up", "silent")},
}


class Tally:
    """What the clients were told."""

    def __init__(self) -> None:
        self.wrong: list[object] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.slowest = 0.0
        self.stop = threading.Event()

    def numbers(self) -> Iterable[int]:
        number = 0
        while not self.stop.is_set():
            number += 1
            yield number

    def note(self, who: str, number: int, verdict: str, cause: str | None, reason: str | None) -> None:
        """Take an answer to a call that policy refuses where its number is odd, and allows where it is even."""
        by_policy = ("deny", "policy", f"no {number}") if number % 2 else ("allow", "policy", f"fine {number}")
        if (verdict, cause, reason) == by_policy:
            self.counts[who, "policy"] += 1
        elif verdict == "deny" and cause in LOCAL:
            self.counts[who, cause] += 1
        else:
            self.wrong.append((who, number, verdict, cause, reason))

    def timed(self, began: float) -> None:
        self.slowest = max(self.slowest, time.monotonic() - began)

    def of(self, who: str, *causes: str) -> int:
        return sum(self.counts[who, cause] for cause in causes)


def call(number: int) -> dict[str, Any]:
    return {"tool_name": "Bash" if number % 2 else "Read", "tool_input": {"number": number}}


async def fire_with_trio(path: str, name: str, tally: Tally) -> None:
    def mine(event: Any) -> Any:
        return hooklatch.deny(f"{name} says no")

    async with hooklatch.connect(path, session_id=name) as session:
        await session.register("pre_tool_use", mine, match="Mine")
        for number in tally.numbers():
            began = time.monotonic()
            decision = await session.fire("pre_tool_use", call_id=str(number), payload=call(number))
            tally.timed(began)
            tally.note("trio", number, decision.verdict, decision.cause, decision.reason)
            own = await session.fire("pre_tool_use", tool_name="Mine", tool_input={})
            is_right = own.verdict == "deny" and (own.cause in LOCAL or own.reason == f"{name} says no")
            if not is_right:
                tally.wrong.append((name, own.verdict, own.cause, own.reason))
            tally.counts["served", str(own.cause)] += 1
            await trio.sleep(0.005)  # an agent thinks too; a daemon that is gone must not make it spin


def fire_with_threads(path: str, tally: Tally) -> None:
    with hooklatch.connect_sync(path, session_id="threads") as session:
        for number in tally.numbers():
            decision = session.fire("pre_tool_use", payload=call(number))
            tally.note("sync", number, decision.verdict, decision.cause, decision.reason)
            tally.stop.wait(0.005)


async def fire_alone(path: str, tally: Tally) -> None:
    for number in tally.numbers():
        began = time.monotonic()
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(path)  # the manager listens, so nobody is ever refused
        client = Client(stream)
        await client.send("fire", event="pre_tool_use", payload=call(number))
        try:
            message = await client.read()
        except trio.BrokenResourceError:
            message = None
        await client.aclose()
        tally.timed(began)
        if message is None:  # who writes a client of their own denies then
            tally.note("alone", number, "deny", "no_daemon", None)
        else:
            result = message["result"]
            tally.note("alone", number, result["verdict"], result["cause"], result["reason"])
        await trio.sleep(0.005)


def fire_as_claude_code(runtime: Path, tally: Tally) -> None:
    command = make_entry_command("claude-code", "PreToolUse", "gate", 60, runtime_dir=runtime)
    for number in tally.numbers():
        event = {"hook_event_name": "PreToolUse", "session_id": "cc", "cwd": "/", **call(number)}
        event["tool_input"] |= {"command": "true", "file_path": "/x"}
        done = subprocess.run(command, input=json.dumps(event).encode(), capture_output=True, timeout=30, check=False)
        said = json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else {}
        verdict, reason = said.get("permissionDecision", "nothing"), said.get("permissionDecisionReason", "")
        if done.returncode == 2:
            verdict, reason = "deny", done.stderr.decode()
        local = [cause for told, cause in LOCALLY_TOLD.items() if reason.startswith(told)]
        expected = f"no {number}" if number % 2 else f"fine {number}"
        if reason.startswith(expected):
            tally.note("entry", number, verdict, "policy", expected)
        else:
            tally.note("entry", number, verdict, local[0] if local else "?", f"{done.returncode} {reason}")


async def ended(daemon: Started) -> str:
    code, _, err = await trio.to_thread.run_sync(daemon.end)
    assert code == 0, err
    assert "Traceback" not in err, err
    return err


async def ready(manager: Manager, daemon: Started) -> None:
    while (await trio.to_thread.run_sync(manager.hear_of, "READY"))["MAINPID"] != str(daemon.pid):
        continue


async def restart_one_after_the_other(manager: Manager, old: Started) -> Started:
    old.signal(signal.SIGTERM)
    await ended(old)
    new = manager.start("--log-level", "warning")
    await ready(manager, new)
    return new


async def restart_with_an_overlap(manager: Manager, old: Started) -> Started:
    new = manager.start("--log-level", "warning")
    old.signal(signal.SIGTERM)
    await ended(old)
    await ready(manager, new)
    return new


async def goes_on(tally: Tally, progress: Callable[[], int]) -> None:
    """Wait until some more calls are answered by policy."""
    enough = progress() + 20
    with trio.fail_after(60):
        while progress() < enough:  # noqa: ASYNC110  (the clients tell nobody)
            await trio.sleep(0.01)


async def test_no_call_is_lost_or_wrongly_answered_while_daemons_follow_each_other(
    record_property: Callable[[str, object], None],
) -> None:
    tally, clients = Tally(), ("trio", "sync", "alone")
    with managing(FILES) as manager:
        agent = str(manager.place.runtime / "agent.sock")
        daemon = manager.start("--log-level", "warning")
        await ready(manager, daemon)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fire_with_trio, agent, "one", tally)
            nursery.start_soon(fire_with_trio, agent, "two", tally)
            nursery.start_soon(fire_alone, agent, tally)
            nursery.start_soon(trio.to_thread.run_sync, fire_with_threads, agent, tally)
            nursery.start_soon(trio.to_thread.run_sync, fire_as_claude_code, manager.place.runtime, tally)
            try:
                for restart in (restart_one_after_the_other, restart_with_an_overlap, restart_one_after_the_other):
                    for who in clients:
                        await goes_on(tally, partial(tally.of, who, "policy"))
                    daemon = await restart(manager, daemon)
                for who in (*clients, "served"):
                    await goes_on(tally, partial(tally.of, who, "policy"))
            finally:
                tally.stop.set()
        daemon.signal(signal.SIGTERM)
        await ended(daemon)

    record_property("answers", {f"{who} {cause}": count for (who, cause), count in sorted(tally.counts.items())})
    record_property("slowest_s", round(tally.slowest, 2))
    assert tally.wrong == []
    assert tally.of("entry", "policy") > 0


async def test_a_call_that_runs_is_finished_by_the_old_daemon_while_new_ones_wait_for_the_next(tmp_path: Path) -> None:
    with managing() as manager:
        place = manager.place
        old = manager.start()
        await ready(manager, old)
        running = await trio.to_thread.run_sync(pause_in_a_guard, manager)
        old.signal(signal.SIGTERM)
        await trio.to_thread.run_sync(manager.hear_of, "STOPPING")
        place.write({"late.json": json.dumps({"tool_name": "Grep", "tool_input": {}})})
        late = place.begin("fire", "pre_tool_use", "--payload", "config/late.json", "--json")
        new = manager.start()
        (place.folder / "go").open("w").close()
        answered = await trio.to_thread.run_sync(running.end)
        await ended(old)
        await ready(manager, new)
        code, out, _ = await trio.to_thread.run_sync(late.end)
        new.signal(signal.SIGTERM)
        await ended(new)

    assert answered[0] == 2
    assert "answered after all" in answered[1]
    assert (code, json.loads(out)["verdict"]) == (0, "pass")


def pause_in_a_guard(manager: Manager) -> Started:
    from support.commands import Pause

    return Pause(manager.place.folder).begin_fire(manager.place)
