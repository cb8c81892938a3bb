"""A name means one hook, wherever one is taken or given: two projects and the user all have a guard of the same id.

Slow as a whole: each starts a daemon.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget, ServedTarget
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.registry.statistics import Statistics
from hooklatch_worker.wire import Source
from support.daemons import Client, Daemon, RpcFailure, child_of, running_daemon
from support.states import put_state

GUARD = """
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="{tool}")
def no(event):
    return deny("{tool}")
"""
ID = "guards:no"

pytestmark = pytest.mark.slow


class Places:
    """A daemon with sessions in two projects; the user's own guard refuses Bash, each project's refuses Read."""

    def __init__(self, daemon: Daemon, admin: Client, here: Client, there: Client, folder: Path) -> None:
        self.daemon, self.admin, self.here, self.there = daemon, admin, here, there
        self.names = [f"project:{folder}/{one}/{ID}" for one in ("a b", "c")]

    async def verdicts(self) -> list[str]:
        """Return what Read is answered in either project, and what Bash is."""
        fires = [self.here.fire_tool("Read"), self.there.fire_tool("Read"), self.here.fire_tool("Bash")]
        return [(await one)["verdict"] for one in fires]


@asynccontextmanager
async def places(folder: Path, *, is_new: bool = True) -> AsyncGenerator[Places]:
    files = {"hooks.d/guards.py": GUARD.format(tool="Bash")} if is_new else {}
    for one in ("a b", "c") if is_new else ():
        files[f"{one}/.hooklatch/hooks.d/guards.py"] = GUARD.format(tool="Read")
    async with (
        running_daemon(folder, files) as daemon,
        daemon.administrator() as admin,
        daemon.session(id="here", cwd=f"{folder}/a b") as here,
        daemon.session(id="there", cwd=f"{folder}/c") as there,
    ):
        for one in ("a b", "c") if is_new else ():
            await admin.call("trust", folder=f"{folder}/{one}")
        yield Places(daemon, admin, here, there, folder)


async def refused(client: Client, method: str, **params: Any) -> str:
    with pytest.raises(RpcFailure) as caught:
        await client.call(method, **params)
    return str(caught.value)


async def test_one_projects_guard_is_switched_without_anothers_and_over_a_restart(tmp_path: Path) -> None:
    async with places(tmp_path) as at:
        ambiguous = [await refused(at.admin, method, id=ID) for method in ("enable", "disable")]
        before = await at.verdicts()
        await at.admin.call("disable", id=at.names[0])
        disabled = await at.verdicts()
        marks = (await at.admin.call("status"))["marks"]
    async with places(tmp_path, is_new=False) as at:
        kept = await at.verdicts()
        await at.admin.call("enable", id=at.names[0])
        enabled = await at.verdicts()

    for text in ambiguous:
        assert text.startswith("invalid_params")
        assert all(shlex.quote(name) in text for name in (f"global/{ID}", *at.names))
    assert before == enabled == ["deny", "deny", "deny"]
    assert disabled == kept == ["pass", "deny", "deny"]
    assert marks == [{"hook": at.names[0], "mark": "disabled"}]


async def test_one_projects_guard_is_suspended_without_anothers(tmp_path: Path) -> None:
    async with places(tmp_path) as at:
        ambiguous = await refused(at.admin, "suspend", id=ID, seconds=60, reason="x")
        for name in at.names:
            await at.admin.call("suspend", id=name, seconds=60, reason="mending")
        both = await at.verdicts()
        which = await refused(at.admin, "resume", id=ID)
        await at.admin.call("resume", id=at.names[1])
        one = await at.verdicts()
        warning = (await at.here.fire_tool("Read"))["warnings"][0]
        resumed = await at.admin.call("resume", id=ID)  # now it can mean but one

    for text, names in ((ambiguous, (f"global/{ID}", *at.names)), (which, at.names)):
        assert all(shlex.quote(name) in text for name in names)
    assert (both, one) == (["pass", "pass", "deny"], ["pass", "deny", "deny"])
    assert warning.startswith(f"{at.names[0]} is suspended")
    assert resumed == {"was_suspended": True, "suspended": []}


async def test_who_decided_is_named_in_decisions_lists_timings_and_the_record(tmp_path: Path) -> None:
    async with places(tmp_path) as at, at.daemon.session(**child_of(at.here), cwd=f"{tmp_path}/c") as child:
        by_project = await at.here.fire_tool("Read")
        by_user = await at.here.fire_tool("Bash")
        handed_down = await child.fire_tool("Read")
        listed = {hook["name"]: hook for hook in (await child.call("hooks"))["hooks"]}
        explained = await child.call("explain", event="pre_tool_use", payload={"tool_name": "Read"})
        logged = [await at.admin.call("log", hook=name) for name in (at.names[0], f"global/{ID}", ID)]
        await at.admin.call("disable", id=at.names[1])
        once_more = await child.fire_tool("Read")

    name = at.names[0]
    assert (by_project["layer"], by_project["hook"], by_project["name"]) == ("project", ID, name)
    assert "name" not in by_user
    assert [one["name"] for one in handed_down["outcomes"]] == [at.names[1]]
    assert [listed[one]["project"] for one in (*at.names, f"global/{ID}")] == [f"{tmp_path}/a b", f"{tmp_path}/c", None]
    assert [listed[one]["timings"]["count"] for one in (*at.names, f"global/{ID}")] == [1, 1, 1]
    assert {one["name"] for one in explained["fires"]} == set(at.names)
    assert [len(one["records"]) for one in logged] == [1, 1, 3]
    assert (once_more["layer"], once_more["name"]) == ("parent", name)


async def test_the_way_out_that_a_reason_names_is_that_hooks_alone_and_fit_for_a_shell(tmp_path: Path) -> None:
    async with places(tmp_path) as at:
        (tmp_path / "a b/.hooklatch/hooks.d/added.py").write_text("")
        denied = await at.here.fire_tool("Read")
        command = denied["reason"].partition("or: ")[2]
        await at.admin.call("disable", id=shlex.split(command)[-1])

        assert shlex.split(command) == ["hooklatch", "hooks", "disable", at.names[0]]
        assert denied["cause"] == "load"
        assert await at.verdicts() == ["pass", "deny", "deny"]


async def test_what_an_old_state_switched_for_all_projects_is_in_force_again_and_said(tmp_path: Path) -> None:
    async with places(tmp_path) as at:
        await at.admin.call("disable", id=at.names[1])
    path = tmp_path / "state/state.json"
    state = json.loads(path.read_text())
    state["switches"] |= {f"project/{ID}": False, "plugin/acme": False}
    state["suspensions"] = [{"hook": ID, "since": 0, "until": 2**33, "reason": "x"}]
    put_state(path.parent, json.dumps(state))

    async with places(tmp_path, is_new=False) as at:
        verdicts, status = await at.verdicts(), await at.admin.call("status")

    assert verdicts == ["deny", "pass", "deny"]
    assert [warning.partition(" was ")[0] for warning in status["warnings"]] == [
        repr(f"project/{ID}"), "'plugin/acme'", repr(ID),
    ]  # fmt: skip
    assert status["health"] == "green"


def one_hook(**place: Any) -> Hook:
    target = PythonTarget(Source("file", "/g.py"), 1, "no")
    return Hook(id="no", event="stop", matcher=compile_matcher(None), target=target, **place)


HOOKS = [
    one_hook(layer=Layer.GLOBAL),
    one_hook(layer=Layer.PROJECT, project="/a"),
    one_hook(layer=Layer.PROJECT, project="/b"),
    one_hook(layer=Layer.SESSION, owner="s1"),
    one_hook(layer=Layer.SESSION, owner="s2"),
]


@pytest.mark.parametrize("guilty", HOOKS, ids=[hook.name for hook in HOOKS])
def test_hooks_of_one_id_and_one_file_share_no_quarantine_and_no_numbers(guilty: Hook) -> None:
    breakers, statistics = Breakers(lambda hook, why: None), Statistics()
    for second in range(6):
        breakers.make(guilty).record_death(float(second), "killed")
        statistics.calls.append((guilty, "crash", 1.0))

    assert [hook for hook in HOOKS if breakers.is_quarantined(hook)] == [guilty]
    assert [hook for hook in HOOKS if statistics.timings(hook.name, hook.owner)["count"]] == [guilty]
    for hook in HOOKS:
        if hook is not guilty:
            breakers.lift(hook.name)
            breakers.forget(hook.owner or "nobody")
    assert breakers.is_quarantined(guilty)
    breakers.lift(guilty.name)
    assert not breakers.is_quarantined(guilty)


def test_a_gate_handed_down_is_the_hook_that_it_was() -> None:
    for hook in HOOKS[1:]:
        values = {name: getattr(hook, name) for name in Hook.__struct_fields__}
        assert Hook(**(values | {"layer": Layer.PARENT, "target": ServedTarget(1)})).name == hook.name
