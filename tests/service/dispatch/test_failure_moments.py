"""The rows of the failure table that need a moment, a file or a peer rather than a callback that misbehaves."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Client, Daemon, callbacks, running_daemon
from support.pools import is_busy, until
from support.survivors import nobody_survives

PATIENT = {"hooks.toml": '[[source]]\npath = "patient.py"\nworkers = 2\n', "patient.py": callbacks("patient.py")}
BIG = "x" * (8 * 2**20)

pytestmark = pytest.mark.slow  # each test starts a daemon with its zygote: 0.2 s and more


@asynccontextmanager
async def patient_daemon(folder: Path) -> AsyncGenerator[Daemon]:
    with nobody_survives():
        async with running_daemon(folder, PATIENT) as daemon:
            yield daemon


async def ask(daemon: Daemon, tool: str, **more: Any) -> dict[str, Any]:
    """Fire a gate on a connection of its own."""
    client = daemon.connect()
    try:
        payload = {"tool_name": tool, "began": str(daemon.folder / "began"), "go": str(daemon.folder / "go")}
        return await client.call("fire", event="pre_tool_use", payload=payload, **more)
    finally:
        await client.aclose()


async def kill_zygote(daemon: Daemon, number: int = signal.SIGKILL) -> int:
    zygote = daemon.parts.sources.zygote
    await until(lambda: zygote.is_alive)
    assert zygote.pid is not None
    os.kill(zygote.pid, number)
    return zygote.pid


def began(daemon: Daemon) -> list[int]:
    path = daemon.folder / "began"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def denied(decision: dict[str, Any]) -> tuple[str, str]:
    return decision["verdict"], decision["cause"]


# -- time, workers and the zygote --------------------------------------------------------------------------------


async def test_waiting_for_a_worker_counts_towards_the_deadline(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon, trio.open_nursery() as nursery:
        nursery.start_soon(ask, daemon, "wait")
        nursery.start_soon(ask, daemon, "wait")
        await until(lambda: len(began(daemon)) == 2)

        decision = await ask(daemon, "answer", timeout=0.2)
        (tmp_path / "go").touch()

    assert denied(decision) == ("deny", "timeout")
    assert "no worker became free" in decision["reason"]
    assert decision["retryable"]


async def test_the_budget_of_the_fire_cuts_the_time_of_its_hooks(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon:
        started = trio.current_time()
        decision = await ask(daemon, "wait", timeout=0.2)
        elapsed = trio.current_time() - started

    assert denied(decision) == ("deny", "timeout")
    assert elapsed < 0.2 + 2.0


async def test_the_death_of_the_zygote_is_a_crash_and_the_next_call_works(tmp_path: Path) -> None:
    decisions: list[dict[str, Any]] = []

    async def wait(daemon: Daemon) -> None:
        decisions.append(await ask(daemon, "wait"))

    async with patient_daemon(tmp_path) as daemon:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, daemon)
            await until(lambda: began(daemon))
            await kill_zygote(daemon)
        after = await ask(daemon, "answer")
        quarantined = daemon.parts.breakers

        assert denied(decisions[0]) == ("deny", "crash")
        assert "the zygote died" in decisions[0]["reason"]
        assert after["verdict"] == "allow"
        assert daemon.parts.sources.zygote.restarts == 1
        assert all(quarantined.of(hook) is None for hook in daemon.parts.registries.view.hooks)


async def test_calls_wait_for_a_new_zygote_again_and_again(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon:
        for count in (1, 2, 3):
            await kill_zygote(daemon)
            await until(lambda count=count: daemon.parts.sources.zygote.restarts == count)  # type: ignore[misc]
            decision = await ask(daemon, "answer")

            assert decision["verdict"] == "allow", decision


async def test_a_stopped_zygote_stops_no_warm_worker_and_is_replaced_when_needed(tmp_path: Path) -> None:
    """Slow: the zygote is given 2 s to answer."""
    async with patient_daemon(tmp_path) as daemon:
        await ask(daemon, "answer")
        await until(lambda: len(daemon.worker_pids) == 2)
        first = await kill_zygote(daemon, signal.SIGSTOP)

        warm = await ask(daemon, "answer")
        crashed = [await ask(daemon, "die"), await ask(daemon, "die")]
        after = await ask(daemon, "answer")

        assert warm["verdict"] == "allow"
        assert [denied(one) for one in crashed] == [("deny", "crash")] * 2
        assert after["verdict"] == "allow"
        assert daemon.parts.sources.zygote.pid != first


async def test_a_fork_that_fails_is_overload_and_passes(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon:
        zygote = await kill_zygote(daemon, 0)
        before = resource.prlimit(zygote, resource.RLIMIT_NOFILE)
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, (4, before[1]))
        answers = [await ask(daemon, "die")]
        while denied(answers[-1]) == ("deny", "crash"):  # until none is left of those that were forked before
            answers.append(await ask(daemon, "die"))
        *crashed, refused = answers
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, before)
        await until(lambda: daemon.worker_pids)
        after = await ask(daemon, "answer")

        assert crashed
        assert denied(refused) == ("deny", "overload")
        assert "fork failed" in refused["reason"]
        assert after["verdict"] == "allow"


async def test_a_draining_daemon_denies_gates_and_drops_the_rest(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon, daemon.session() as client:
        daemon.parts.dispatcher.is_draining = True

        gate = await ask(daemon, "answer")
        rest = await client.fire("notification", notification_type="wait")
        unawaited = await client.call("fire", event="notification", payload={}, wait=False)

    assert denied(gate) == ("deny", "draining")
    assert gate["retryable"]
    assert rest["verdict"] == "pass"
    assert unawaited["accepted"] is False


# -- clients that leave -------------------------------------------------------------------------------------------


async def leave_during(daemon: Daemon, event: str, **payload: Any) -> None:
    client = daemon.connect()
    payload |= {"began": str(daemon.folder / "began"), "go": str(daemon.folder / "go")}
    await client.send("fire", event=event, payload=payload)
    (pool,) = daemon.parts.sources.pools.values()
    await until(lambda: pool.status()["busy"])
    await client.aclose()


async def test_a_gate_whose_client_left_is_abandoned_and_its_worker_used_again(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon, daemon.administrator() as admin:
        await leave_during(daemon, "pre_tool_use", tool_name="wait")
        await until(lambda: began(daemon) and daemon.parts.statistics.causes["abandoned"])
        (tmp_path / "go").touch()
        (pool,) = daemon.parts.sources.pools.values()
        await until(lambda: not is_busy(pool))
        status = await admin.call("status")

        assert status["failures"]["abandoned"] == 1
        assert began(daemon)[0] in daemon.worker_pids
        assert pool.status()["lost"] == 0


async def test_an_abandoned_call_that_goes_past_its_deadline_is_killed(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon:
        await leave_during(daemon, "pre_tool_use", tool_name="hang")
        await until(lambda: began(daemon))
        (pool,) = daemon.parts.sources.pools.values()
        await until(lambda: not is_busy(pool) and not pool.status()["condemned"])

        assert began(daemon)[0] not in daemon.worker_pids
        assert (await ask(daemon, "answer"))["verdict"] == "allow"


async def test_a_gate_that_still_waited_for_a_worker_when_its_client_left_is_never_run(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon, trio.open_nursery() as nursery:
        nursery.start_soon(ask, daemon, "wait")
        nursery.start_soon(ask, daemon, "wait")
        await until(lambda: len(began(daemon)) == 2)
        (pool,) = daemon.parts.sources.pools.values()
        await leave_during(daemon, "pre_tool_use", tool_name="wait")
        await until(lambda: daemon.parts.statistics.causes["abandoned"] and not pool.status()["waiting"])
        (tmp_path / "go").touch()

        await until(lambda: not is_busy(pool))
        assert len(began(daemon)) == 2


async def test_a_notification_whose_client_left_is_finished(tmp_path: Path) -> None:
    async with patient_daemon(tmp_path) as daemon:
        await leave_during(daemon, "notification", notification_type="wait")
        (tmp_path / "go").touch()

        await until(lambda: began(daemon))
        await until(lambda: daemon.parts.statistics.verdicts["pass"] == 1)


# -- hooks that a client serves -----------------------------------------------------------------------------------

SERVED = [
    {"id": f"{event}-served", "event": event, "served": True, "timeout": 0.5}
    for event in ("pre_tool_use", "notification", "post_model", "message_claim")
]
Answer = Callable[[Client, int], Any]


async def fire_served(folder: Path, answer: Answer) -> dict[str, dict[str, Any]]:
    """Fire one event of each model whose hook a second client of the session serves, and answers as told."""
    decisions: dict[str, dict[str, Any]] = {}
    async with running_daemon(folder) as daemon, daemon.session() as client:
        token = {"id": client.hello["session_id"], "resume_token": client.hello["resume_token"]}  # type: ignore[attr-defined]
        for hook in SERVED:
            async with daemon.session(**token, hooks=[hook]) as server:
                number = await client.send("fire", event=hook["event"], payload={"tool_name": "Bash"})
                call = await server.read()
                assert call is not None
                assert (call["method"], call["params"]["hook"]) == ("call", hook["id"])
                await answer(server, call["id"])
                decisions[str(hook["event"])] = await client.answer_to(number)
    return decisions


async def say_nothing(server: Client, number: int) -> None:
    return


async def leave(server: Client, number: int) -> None:
    await server.aclose()


async def say_error(server: Client, number: int) -> None:
    await server.send_line({"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "it raised"}})


async def say_garbage(server: Client, number: int) -> None:
    await server.send_line({"jsonrpc": "2.0", "id": number, "result": {"verdict": "maybe"}})


async def say_an_illegal_word(server: Client, number: int) -> None:
    await server.send_line({"jsonrpc": "2.0", "id": number, "result": {"resume": "go on"}})


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (say_nothing, "timeout"),
        (leave, "crash"),
        (say_error, "crash"),
        (say_garbage, "protocol"),
        (say_an_illegal_word, "protocol"),
    ],
)
async def test_a_client_that_fails_to_serve_its_hook(tmp_path: Path, answer: Answer, cause: str) -> None:
    decisions = await fire_served(tmp_path, answer)

    gate = decisions.pop("pre_tool_use")
    assert denied(gate) == ("deny", cause)
    assert gate["hook"] == "pre_tool_use-served"
    for decision in decisions.values():
        assert decision["verdict"] == "pass"
        assert [(one["outcome"], one["cause"]) for one in decision["outcomes"]] == [("failed", cause)]


# -- files --------------------------------------------------------------------------------------------------------

GUARD = 'from hooklatch import deny, hook\n@hook("pre_tool_use")\ndef guard(event):\n    return deny("no")\n'
SOURCE = '[[source]]\npath = "guard.py"\n'


async def fire_all_models(daemon: Daemon) -> dict[str, dict[str, Any]]:
    async with daemon.session() as client:
        return {
            event: await client.fire(event, tool_name="Bash")
            for event in ("pre_tool_use", "notification", "post_model", "message_claim")
        }


def mode(path: Path, bits: int) -> None:
    path.chmod(bits)


@pytest.mark.parametrize(
    ("text", "bits", "reason"),
    [
        (None, 0o600, "there is no such file"),
        ("import nothing_of_that_name\n", 0o600, "guard.py:1: ModuleNotFoundError"),
        ("\n\ndef guard(:\n", 0o600, "guard.py:3: SyntaxError"),
        ("raise SystemExit(0)\n", 0o600, "guard.py:1: SystemExit"),
        ("import os\nos._exit(0)\n", 0o600, "the worker died while importing: the worker exited with code 0"),
        ("import os, signal\nos.kill(os.getpid(), 9)\n", 0o600, "killed by signal 9"),
        ("import os\nos.closerange(0, 64)\n", 0o600, "the worker died while importing"),
        (GUARD, 0o602, "writable by others; fix it with: chmod go-w"),
        (GUARD, 0o620, "writable by others; fix it with: chmod go-w"),
        (b"\xff\xfe", 0o600, "guard.py"),
        (
            'from hooklatch_worker import hook\n@hook("pre_tool_use", match={"regex": 1j})\ndef f(e): ...\n',
            0o600,
            "guard",
        ),
    ],
)
async def test_a_source_that_cannot_be_used_denies_and_says_why(
    tmp_path: Path, text: str | bytes | None, bits: int, reason: str
) -> None:
    if text is not None:
        path = tmp_path / "guard.py"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(bits)
    async with running_daemon(tmp_path, {"hooks.toml": SOURCE}) as daemon:
        decisions = await fire_all_models(daemon)

    gate = decisions.pop("pre_tool_use")
    assert denied(gate) == ("deny", "load")
    assert reason in gate["reason"]
    assert str(tmp_path / "guard.py") in gate["reason"]
    assert "hooklatch hooks disable" in gate["reason"]
    assert {decision["verdict"] for decision in decisions.values()} == {"pass"}


async def test_a_function_that_is_missing_denies(tmp_path: Path) -> None:
    config = '[[hook]]\nid = "g"\nevent = "pre_tool_use"\nrun = "guard.py:gurad"\n'
    async with running_daemon(tmp_path, {"hooks.toml": config, "guard.py": GUARD}) as daemon:
        decisions = await fire_all_models(daemon)

    assert denied(decisions["pre_tool_use"]) == ("deny", "load")
    assert "has no function 'gurad'" in decisions["pre_tool_use"]["reason"]


async def test_a_broken_new_version_does_not_keep_the_good_one_from_new_workers(tmp_path: Path) -> None:
    files = {"hooks.toml": SOURCE, "guard.py": GUARD.replace('deny("no")', "__import__('os')._exit(1)")}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        daemon.write("guard.py", "def broken(:\n")
        await daemon.parts.reloader.reload()

        for _ in range(3):
            crashed = await client.fire_tool("Bash")
            assert denied(crashed) == ("deny", "crash")


# -- payloads -----------------------------------------------------------------------------------------------------

MATCHING = SOURCE, GUARD.replace('"pre_tool_use"', '["pre_tool_use", "notification"], match="Bash"')


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"payload": {"tool_name": "Bash", "x": BIG}}, "over the limit"),
        ({"payload": {"tool_name": "Bash"}, "truncated": True}, "truncated"),
        ({"payload": {}}, "its field 'tool_name' is missing"),
        ({"payload": {"tool_name": None}}, "its field 'tool_name' is missing, not a string"),
        ({"payload": {"tool_name": ["Bash"]}}, "its field 'tool_name' is missing, not a string"),
    ],
    ids=["too big", "truncated", "no match field", "null match field", "list match field"],
)
async def test_a_payload_that_cannot_be_judged_denies_unseen(
    tmp_path: Path, params: dict[str, Any], reason: str
) -> None:
    files = {"hooks.toml": MATCHING[0], "guard.py": MATCHING[1]}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        gate = await client.call("fire", event="pre_tool_use", **params)
        rest = await client.call("fire", event="notification", **params)

    assert denied(gate) == ("deny", "payload")
    assert reason in gate["reason"]
    assert "outcomes" not in gate
    assert rest["verdict"] == "pass"
    assert "outcomes" not in rest
