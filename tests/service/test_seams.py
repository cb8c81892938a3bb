"""Where two parts meet: what the one changes must reach what the other has already made of it."""

from __future__ import annotations

from pathlib import Path

import trio

from support.daemons import Daemon, child_of, running_daemon
from support.ground import GUARD, Ground

EVENT = """
[[event]]
name = "deploy"
model = "{model}"
{verdicts}
"""
NOTIFY = EVENT.format(model="notify", verdicts="")
GATE = EVENT.format(model="gate", verdicts='verdicts = ["deny"]')
DENY = """
from hooklatch_worker import deny, hook

def refuse(event):
    return deny("no")
"""


async def becomes_a_gate(daemon: Daemon) -> None:
    daemon.write("hooks.toml", GATE)
    async with daemon.administrator() as admin:
        await admin.call("reload")


async def test_an_event_that_becomes_a_gate_is_held_by_what_stands_at_every_gate(tmp_path: Path) -> None:
    files = {"hooks.toml": NOTIFY, "hooks.d/broken.toml": "[[hook"}

    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        before = await client.fire("deploy")
        await becomes_a_gate(daemon)
        after = await client.fire("deploy")

    assert (before["verdict"], after["verdict"], after["cause"]) == ("pass", "deny", "load")


async def test_an_event_that_becomes_a_gate_hands_its_hooks_down(tmp_path: Path) -> None:
    files = {"hooks.toml": NOTIFY, "mine.py": DENY}

    async with (
        running_daemon(tmp_path, files) as daemon,
        daemon.session(cwd=str(tmp_path)) as parent,
        daemon.session(**child_of(parent)) as child,
    ):
        await parent.call("register", hooks=[{"id": "mine", "event": "deploy", "run": "mine.py:refuse"}])
        before = await child.fire("deploy")
        await becomes_a_gate(daemon)
        after = await parent.fire("deploy"), await child.fire("deploy")

    assert before["verdict"] == "pass"
    assert [decision["verdict"] for decision in after] == ["deny", "deny"]


async def test_a_file_of_hooks_d_that_is_not_read_for_its_ending_is_told(tmp_path: Path) -> None:
    names = ["a.TOML", "b.PY", "c.jsonc"]
    files = {f"hooks.d/{name}": "" for name in (*names, "words.txt", ".d.PY", "e.py~")}

    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        status = await client.call("status")

    assert [Path(problem["file"]).name for problem in status["problems"]] == names


async def test_a_clients_command_on_an_event_of_our_own_outlives_the_daemon(tmp_path: Path) -> None:
    hook = {"id": "mine", "event": "deploy", "command": "echo no >&2; exit 2"}

    async with running_daemon(tmp_path, {"hooks.toml": GATE}) as daemon, daemon.administrator() as admin:
        await admin.call("register", scope="global", hooks=[hook])
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        again = await client.fire("deploy")
    async with running_daemon(tmp_path, {"hooks.toml": "[[event]]"}) as daemon, daemon.administrator() as admin:
        status = await admin.call("status")

    assert (again["verdict"], again["reason"]) == ("deny", "no")
    assert any("there is no event 'deploy'" in problem["message"] for problem in status["problems"])


async def test_a_fire_keeps_the_guards_of_where_it_began_while_its_session_moves(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        here = Ground(daemon, tmp_path)
        (tmp_path / "none").mkdir()
        await here.trust("a", "A")
        async with daemon.session(cwd=here.path("$none")) as client:
            await client.call("session.update", cwd=here.path("$a"))
            # Written anew with the same content: it has to be looked at before the fire, which then waits.
            (tmp_path / "a" / ".hooklatch" / "hooks.d" / "A.py").write_text(GUARD.format(tool="A"))
            payload = {"tool_name": "A", "tool_input": {}}
            async with daemon.parts.reloader._lock:  # as long as another reload lasts
                fired = await client.send("fire", event="pre_tool_use", payload=payload)
                await client.call("session.update", cwd=here.path("$none"))
            with trio.fail_after(10):
                decision = await client.answer_to(fired)

    assert decision["verdict"] == "deny"
