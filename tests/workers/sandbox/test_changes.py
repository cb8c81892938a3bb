"""Isolation levels as they are configured and changed: the level of each source, and what is rebuilt when.

Slow: each test runs a daemon with its workers.
"""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hooklatch.processes.worker import SourceLoadError
from hooklatch.service.config.configuration import ConfigError, read_config
from hooklatch_worker import wire
from hooklatch_worker.sandbox.isolation import detect_kernel, find_effective_isolation
from hooklatch_worker.wire import Isolation
from support.daemons import Client, Daemon, running_daemon
from support.pools import running_pool, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(find_effective_isolation(detect_kernel(), Isolation("strict")).missing),
        reason="this kernel has not all of it",
    ),
]
GUARDS = """
import json, os, sys, tempfile
from hooklatch import deny, hook

@hook("pre_tool_use", match="Write")
def write(event):
    try:
        os.mkdir(event.tool_input["path"])
    except PermissionError:
        return deny("refused")
    return deny("written")

@hook("pre_tool_use", match="Fill")
def fill(event):
    folder = tempfile.mkdtemp()
    os.mkdir(os.path.join(folder, "below"))
    open(os.path.join(folder, "below", "file"), "w").close()
    os.symlink("/", os.path.join(folder, "link"))
    os.chmod(os.path.join(folder, "below"), 0)
    return deny(json.dumps([os.getpid(), os.environ["TMPDIR"]]))

@hook("pre_tool_use", match="Who")
def who(event):
    return deny(str(os.getpid()))
"""
SOURCE = '[[source]]\npath = "guards.py"\n'


def table(level: str, **keys: object) -> str:
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    return f'[isolation]\nlevel = "{level}"\n{lines}'


async def said(client: Client, tool: str, **tool_input: Any) -> str:
    decision = await client.fire_tool(tool, **tool_input)
    assert decision["cause"] == "policy", decision
    return str(decision["reason"])


async def change(daemon: Daemon, config: str) -> None:
    daemon.write("hooks.toml", config)
    async with daemon.administrator() as admin:
        assert (await admin.call("reload"))["diagnostics"] == []


def is_replaced(daemon: Daemon, pid: int) -> bool:
    return pid not in daemon.worker_pids and bool(daemon.worker_pids)


async def isolations(daemon: Daemon) -> dict[str, dict[str, Any]]:
    """Return what the status says of each source in force."""
    async with daemon.administrator() as admin:
        status = await admin.until_status(
            lambda status: len({one["source"] for one in status["sources"]}) == len(status["sources"])
        )
    return {os.path.basename(one["source"]): one["isolation"] for one in status["sources"]}


def strictly(level: str) -> dict[str, Any]:
    return {"configured": level, "in_force": level, "missing": []}


async def test_a_stricter_level_is_in_force_for_every_fire_after_the_reload(tmp_path: Path) -> None:
    files = {"hooks.toml": SOURCE, "guards.py": GUARDS}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        before = await said(client, "Write", path=str(tmp_path / "one"))
        first = await said(client, "Who")
        await change(daemon, table("strict") + SOURCE)

        after = await said(client, "Write", path=str(tmp_path / "two"))

        assert (before, after) == ("written", "refused")
        assert await said(client, "Who") != first
        assert await isolations(daemon) == {"guards.py": strictly("strict")}
        await until(lambda: not os.path.exists(f"/proc/{first}"))


async def test_other_paths_are_other_isolation_and_the_same_table_is_the_same(tmp_path: Path) -> None:
    files = {"hooks.toml": table("restricted", write=["."]) + SOURCE, "guards.py": GUARDS}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        units = daemon.parts.sources.units
        location = str(tmp_path / "guards.py")
        first = units[location].build
        wide = await said(client, "Write", path=str(tmp_path / "one"))
        await change(daemon, files["hooks.toml"] + "\n# nothing new\n")
        second = units[location].build
        await change(daemon, table("restricted", write=["elsewhere"]) + SOURCE)

        narrow = await said(client, "Write", path=str(tmp_path / "two"))

        assert (first, wide, narrow) == (second, "written", "refused")
        assert units[location].build > first


async def test_a_source_can_have_a_level_of_its_own(tmp_path: Path) -> None:
    config = (
        table("restricted") + SOURCE + '[[source]]\npath = "tight.py"\nisolation = "strict"\n'
        '[[source]]\npath = "loose.py"\nisolation = "standard"\n'
        '[[source]]\npath = "loose.py"\n[[source]]\npath = "tight.py"\nisolation = "restricted"\n'
    )
    text = 'from hooklatch import hook\n@hook("stop")\ndef {0}(event): pass\n'
    files = {"guards.py": GUARDS, "tight.py": text.format("tight"), "loose.py": text.format("loose")}
    async with running_daemon(tmp_path, {"hooks.toml": config, **files}) as daemon:
        found = await isolations(daemon)

    assert found == {
        "guards.py": strictly("restricted"), "tight.py": strictly("strict"), "loose.py": strictly("standard"),
    }  # fmt: skip


@pytest.mark.parametrize(("named", "in_force"), [("standard", "restricted"), ("strict", "strict")])
async def test_a_project_can_only_be_stricter(tmp_path: Path, named: str, in_force: str) -> None:
    project = tmp_path / "project"
    (project / ".hooklatch").mkdir(parents=True)
    (project / ".hooklatch/guards.py").write_text(GUARDS)
    (project / ".hooklatch/hooks.toml").write_text(f'{SOURCE}isolation = "{named}"\n')
    async with running_daemon(tmp_path, {"hooks.toml": table("restricted")}) as daemon:
        async with daemon.administrator() as admin:
            await admin.call("trust", folder=str(project))

        found = await isolations(daemon)

    assert found == {"guards.py": strictly(in_force)}


async def test_language_servers_stay_standard_unless_their_table_says_otherwise(tmp_path: Path) -> None:
    config = table("strict") + "[lsp]\nenabled = true\n"
    async with running_daemon(tmp_path, {"hooks.toml": config}) as daemon:
        before = await isolations(daemon)
        await change(daemon, f'{config}isolation = "restricted"\n')

        after = await isolations(daemon)

    assert before == {"hooklatch_worker.lsp.diagnostics": strictly("standard")}
    assert after == {"hooklatch_worker.lsp.diagnostics": strictly("restricted")}


async def test_what_a_client_registers_has_the_default_level_and_keeps_it_over_a_restart(tmp_path: Path) -> None:
    (tmp_path / "api.py").write_text(GUARDS)
    definition = {"id": "api", "event": "pre_tool_use", "match": "Write", "run": f"{tmp_path}/api.py:write"}
    async with running_daemon(tmp_path, {"hooks.toml": table("restricted")}) as daemon, daemon.administrator() as admin:
        await admin.call("register", hooks=[definition], scope="global")
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        answer = await said(client, "Write", path=str(tmp_path / "made"))
        [pool] = daemon.parts.sources.pools.values()

        assert answer == "refused"
        assert pool.build == 1, "it was built with less before the configuration was read"


async def test_a_new_zygote_and_a_replaced_worker_are_held_to_the_same(tmp_path: Path) -> None:
    files = {"hooks.toml": table("restricted") + SOURCE, "guards.py": GUARDS}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        answers = []
        for victim in ("worker", "zygote"):
            who = int(await said(client, "Who"))
            os.kill(who if victim == "worker" else daemon.parts.sources.zygote.pid or who, signal.SIGKILL)
            await until(partial(is_replaced, daemon, who))
            answers.append(await said(client, "Write", path=str(tmp_path / "made")))

        assert answers == ["refused", "refused"]


async def test_a_temporary_folder_goes_with_its_worker(tmp_path: Path) -> None:
    files = {"hooks.toml": table("restricted") + SOURCE, "guards.py": GUARDS}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        pid, place = json.loads(await said(client, "Fill"))  # one answer: another call may reach another worker
        folder = Path(place)
        mode = folder.stat().st_mode & 0o777  # noqa: ASYNC240  (a test's own folder)
        os.kill(pid, signal.SIGKILL)

        await until(lambda: not folder.exists())

        assert mode == 0o700
        await said(client, "Fill")
    assert list((tmp_path / "state/tmp").iterdir()) == []


async def test_temporary_folders_of_a_dead_daemon_go_when_the_next_one_starts(tmp_path: Path) -> None:
    left = tmp_path / "state/tmp/12345/7/left"
    left.mkdir(parents=True)

    async with running_daemon(tmp_path, {"hooks.toml": ""}):
        assert not left.parent.parent.exists()


FORGING = """
import os, sys, time
from hooklatch import hook
from hooklatch_worker import wire

@hook("stop")
def die(event):
    os._exit(1)

if os.path.exists({mark!r}):
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        frame = frame.f_back
    generation = frame.f_locals["request"].generation
    os.write(3, wire.encode_frame(wire.SourceLoaded(generation, [], ["die"], {{}}, "standard", ["refusing writes"])))
    time.sleep(3600)
"""


async def test_a_worker_that_is_held_to_less_than_the_first_is_not_used(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    limits = wire.WorkerLimits(isolation=Isolation("restricted", is_required=False))
    async with running_pool(tmp_path, FORGING.format(mark=str(mark)), worker=limits, workers=2) as workers:
        mark.touch()
        for pid in workers.pool.status()["pids"]:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not workers.pool.status()["pids"])

        reply = await workers.call("die")

    assert reply.cause == "load"
    assert "isolated less than the source's first worker was: refusing writes" in reply.message


async def test_a_worker_that_says_less_than_is_required_does_not_start(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    limits = wire.WorkerLimits(isolation=Isolation("strict"))

    with pytest.RaisesGroup(
        pytest.RaisesExc(SourceLoadError, match="strict isolation is required"), flatten_subgroups=True
    ):
        async with running_pool(tmp_path, FORGING.format(mark=str(mark)), worker=limits):
            pass


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[isolation]\nlevel = "tight"\n', ":2: level is one of 'standard', 'restricted', 'strict', not 'tight'"),
        ('[isolation]\nif_unavailable = "ignore"\n', ":2: if_unavailable is one of 'refuse', 'report', not 'ignore'"),
        ('[isolation]\nwrite = "/tmp"\n', ":2: write is a list of paths, not '/tmp'"),
        ('[isolation]\nnetwork = "no"\n', ":2: network is true or false, not 'no'"),
        ('[isolation]\nlevels = "strict"\n', ":2: [isolation] has no key 'levels'; did you mean 'level'?"),
        ('[[source]]\npath = "a.py"\nisolation = "tight"\n', ":3: isolation is one of 'standard'"),
        ('[lsp]\nenabled = true\nisolation = "tight"\n', ":3: isolation is one of 'standard'"),
        (f'[isolation]\nread = ["{"x" * 20000}"]\n', ":1: write and read have more than 16384 bytes of paths"),
    ],
)
def test_a_mistake_in_the_table_is_named_at_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_config("/etc/hooks.toml", text.encode())

    assert str(raised.value).removeprefix("/etc/hooks.toml").startswith(said)
