"""Sources with environments of their own, in a real daemon: found, made, used, lost and given up.

Packages come from wheels that the tests write; no index is asked.
"""

from __future__ import annotations

import hashlib
import os
import signal
import venv
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.environments import environments, making
from hooklatch.environments.interpreter import ProgramOutput
from support.daemons import Client, Daemon, running_daemon
from support.pools import until
from support.survivors import nobody_survives
from support.wheels import only_from, write_wheel

pytestmark = pytest.mark.slow  # each starts a daemon with at least two zygotes
NAMED = """
[[source]]
path = "named.py"
python = ".venv/bin/python"
"""
GUARD = """
import sys
from hooklatch import deny, hook
from hooklatch.shelltext.commands import *
{imports}

@hook("pre_tool_use", match="{tool}")
def guard(event):
    return deny({reason})
"""
PLAIN = GUARD.format(imports="", tool="plain", reason="sys.prefix")
BLOCK = '# /// script\n# dependencies = ["{package}"]\n# ///\n'


LOCKED = """# /// script
# dependencies = ["answers"]
# [tool.hooklatch]
# lock = "made.lock"
# ///
{guard}
"""


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def made(package: str, *, tool: str = "made", reason: str = "answers.WORD") -> str:
    return BLOCK.format(package=package) + GUARD.format(imports="import answers", tool=tool, reason=reason)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    write_wheel(folder, "answers", "WORD = 'forty-two'\n")
    write_wheel(folder, "answers", "WORD = 'forty-three'\n", version="2.0")
    for name, value in only_from(folder).items():
        monkeypatch.setenv(name, value)
    return folder


@asynccontextmanager
async def daemon_in(folder: Path, files: dict[str, str] | None = None) -> AsyncGenerator[tuple[Daemon, Client]]:
    (folder / "place").mkdir(exist_ok=True)
    with nobody_survives():
        async with running_daemon(folder / "place", files) as daemon, daemon.administrator() as client:
            yield daemon, client


def environment(folder: Path, code: str = "", *, module: str = "answers") -> Path:
    """Make a virtual environment beside the daemon's files, with one module in it."""
    root = folder / "place" / ".venv"
    venv.create(root, symlinks=True)
    packages = next((root / "lib").iterdir()) / "site-packages"
    (packages / f"{module}.py").write_text(code)
    return packages


class Installers:
    """Installers that begin only once they may, so that somebody can look at what is said until then."""

    def __init__(self) -> None:
        self.may_begin = trio.Event()

    async def make(self, recipe: making.EnvironmentRecipe, folder: str, seen: ProgramOutput) -> str:
        await self.may_begin.wait()
        return await making.make_environment(recipe, folder, seen)


@pytest.fixture
def installers(monkeypatch: pytest.MonkeyPatch) -> Installers:
    held = Installers()
    monkeypatch.setattr(environments, "make_environment", held.make)
    return held


async def settled(daemon: Daemon, installers: Installers | None = None) -> None:
    if installers is not None:
        installers.may_begin.set()
    await daemon.parts.environments.settle()
    await daemon.parts.reloader.reload()


async def in_use(client: Client) -> list[dict[str, Any]]:
    return [one for one in (await client.call("status"))["environments"] if one["state"] == "in use"]


async def test_a_named_interpreter_runs_its_own_source_alone(tmp_path: Path) -> None:
    packages = environment(tmp_path, "WORD = 'theirs'\n")
    (packages / "start.pth").write_text("import sys; sys.started = 'in a worker'\n")
    guard = GUARD.format(imports="import answers", tool="named", reason="f'{sys.prefix} {answers.WORD} {sys.started}'")
    files = {"hooks.toml": f'{NAMED}isolation = "strict"\n', "named.py": guard, "hooks.d/plain.py": PLAIN}
    async with daemon_in(tmp_path, files) as (daemon, client):
        assert daemon.parts.reloader.active.diagnostics == []
        assert (await client.fire_tool("plain"))["reason"] != str(tmp_path)
        named = await client.fire_tool("named")
        assert named["reason"] == f"{tmp_path}/place/.venv theirs in a worker"
        (one,) = await in_use(client)
        assert (one["python"], one["users"]) == (f"{tmp_path}/place/.venv/bin/python", 1)

        # Its zygote's death is that of its workers alone, and another one takes over.
        plain = [pool for pool in daemon.parts.sources.pools.values() if "plain" in pool.source.location]
        os.kill(one["zygote"], signal.SIGKILL)
        assert (await client.fire_tool("named"))["verdict"] == "deny"
        await client.until_status(lambda status: status["environments"][0]["restarts"] == 1)
        assert (await client.fire_tool("named"))["cause"] == "policy"
        assert plain[0].status()["lost"] == 0

        # What is installed there is another environment.
        (packages / "further.py").write_text("")
        (packages / "answers.py").write_text("WORD = 'newer'\n")
        await daemon.parts.reloader.reload()
        assert "newer" in (await client.fire_tool("named"))["reason"]
        await until(lambda: len(daemon.parts.environments.status()) == 1)

        # What is edited there is noticed by an explicit reload.
        (packages / "answers.py").write_text("WORD = 'edited'\n")
        await client.call("reload")
        assert "edited" in (await client.fire_tool("named"))["reason"]

        # What it lacks is said, with what to do.
        daemon.write("named.py", guard.replace("import answers", "import answers, nothing_of_that_name"))
        await daemon.parts.reloader.reload()
        assert f"environment {tmp_path}/place/.venv lacks it" in str(daemon.parts.reloader.active.diagnostics[0])
        daemon.write("named.py", guard)

        # Without the table it runs in the daemon's own environment, where it fails: the last good version stays.
        daemon.write("hooks.toml", '[[source]]\npath = "named.py"\n')
        await daemon.parts.reloader.reload()
        assert 'dependencies = ["answers"]' in str(daemon.parts.reloader.active.diagnostics[0])
        assert "edited" in (await client.fire_tool("named"))["reason"]


CALLING = """
import contextlib, socket
def ask():
    with socket.socket(socket.AF_UNIX) as line:
        line.connect({path!r})
        with contextlib.suppress(BrokenPipeError):  # refused and closed before it was written
            line.sendall(b'{{"jsonrpc":"2.0","id":1,"method":"hello","params":{{"protocol":1}}}}\\n')
        return line.recv(65536).decode()
"""


async def test_a_hook_of_an_environment_is_no_client_either(tmp_path: Path) -> None:
    environment(tmp_path)
    calling = CALLING.format(path=str(tmp_path / "place/run/agent.sock"))
    guard = GUARD.format(imports=calling, tool="named", reason="ask()")
    async with daemon_in(tmp_path, {"hooks.toml": NAMED, "named.py": guard}) as (_, client):
        decision = await client.fire_tool("named")

    assert "not_permitted" in decision["reason"]


async def test_what_others_could_write_to_runs_no_guard(tmp_path: Path) -> None:
    packages = environment(tmp_path)
    packages.chmod(0o777)
    guard = GUARD.format(imports="", tool="named", reason="'ran'")
    async with daemon_in(tmp_path, {"hooks.toml": NAMED, "named.py": guard}) as (daemon, client):
        decision = await client.fire_tool("named")
        packages.chmod(0o755)
        reloaded = await client.call("reload")
        mended = await client.fire_tool("named")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert "chmod go-w" in decision["reason"]
    assert reloaded["diagnostics"] == []
    assert mended["reason"] == "ran"
    assert daemon is not None


@pytest.mark.parametrize("installer", ["uv", "pip"])
async def test_what_a_block_requires_is_made_once_and_meanwhile_its_gate_denies(
    tmp_path: Path, wheels: Path, installer: str, installers: Installers, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installer == "pip":
        monkeypatch.setattr(making, "find_uv", lambda: None)
    two = {"hooks.d/made.py": made("answers<2"), "hooks.d/other.py": made("answers <2", tool="other")}
    async with daemon_in(tmp_path, two) as (daemon, client):
        first = await client.fire_tool("made")
        (shown,) = (await client.call("status"))["environments"]
        await settled(daemon, installers)
        assert daemon.parts.reloader.active.diagnostics == []
        assert (await client.fire_tool("made"))["reason"] == "forty-two"
        assert (await client.fire_tool("other"))["reason"] == "forty-two"
        assert [(one["requires"], one["users"]) for one in await in_use(client)] == [(["answers<2"], 2)]
    async with daemon_in(tmp_path) as (daemon, client):  # the next daemon finds it
        assert not daemon.parts.environments.is_making
        assert (await client.fire_tool("made"))["reason"] == "forty-two"

    assert (first["verdict"], first["cause"]) == ("deny", "load")
    assert "its environment is being made" in first["reason"]
    assert (shown["state"], shown["requires"]) == ("being made", ["answers<2"])
    assert len([path for path in (tmp_path / "place/state/environments").iterdir() if path.is_dir()]) == 1


async def test_what_cannot_be_made_keeps_the_last_good_version(
    tmp_path: Path, wheels: Path, installers: Installers
) -> None:
    async with daemon_in(tmp_path, {"hooks.d/made.py": made("answers==1.0")}) as (daemon, client):
        await settled(daemon, installers)
        installers.may_begin = trio.Event()
        daemon.write("hooks.d/made.py", made("answers==3.0"))
        await daemon.parts.reloader.reload()
        being_made = str(daemon.parts.reloader.active.diagnostics[0])
        meanwhile = await client.fire_tool("made")
        await settled(daemon, installers)
        failed = await client.call("status")
        after = await client.fire_tool("made")
        write_wheel(wheels, "answers", "WORD = 'at last'\n", version="3.0")
        await client.call("reload")
        await settled(daemon)
        mended = await client.fire_tool("made")
        await until(lambda: len(daemon.parts.environments.status()) == 1)

    assert "being made" in being_made
    assert "the last good version stays active" in being_made
    assert meanwhile["reason"] == after["reason"] == "forty-two"
    (problem,) = failed["problems"]
    assert "uv install failed with code 1" in problem["message"]
    assert "answers==3.0" in problem["message"]
    assert {one["state"] for one in failed["environments"]} == {"in use", "failed"}
    assert mended["reason"] == "at last"


async def test_a_package_without_a_wheel_is_not_built(tmp_path: Path, wheels: Path) -> None:
    sdist = wheels / "unbuilt-1.0.tar.gz"
    sdist.write_bytes(b"")
    async with daemon_in(tmp_path, {"hooks.d/made.py": made("unbuilt")}) as (daemon, client):
        await settled(daemon)
        decision = await client.fire_tool("made")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert "could not be made" in decision["reason"]


async def test_a_client_has_no_environment_made(tmp_path: Path, wheels: Path) -> None:
    async with daemon_in(tmp_path) as (daemon, client):
        path = daemon.write("theirs.py", made("answers"))
        hook = {"id": "theirs", "event": "pre_tool_use", "run": f"{path}:guard"}
        with trio.fail_after(30), pytest.raises(Exception, match="declare it as a"):
            await client.call("register", hooks=[hook], scope="global")

        assert daemon.parts.environments.status() == []


async def test_a_project_is_trusted_with_what_it_requires_and_names_no_interpreter(
    tmp_path: Path, wheels: Path, installers: Installers
) -> None:
    project = tmp_path / "project"
    (project / ".hooklatch/hooks.d").mkdir(parents=True)
    (project / ".hooklatch/hooks.d/made.py").write_text(made("answers<2"))
    async with daemon_in(tmp_path) as (daemon, client), daemon.session(cwd=str(project)) as session:
        assert (await session.fire_tool("made"))["verdict"] == "pass"
        assert daemon.parts.environments.status() == []

        await client.call("trust", folder=str(project))
        assert (await session.fire_tool("made"))["cause"] == "load"
        await settled(daemon, installers)
        assert (await session.fire_tool("made"))["reason"] == "forty-two"

        (project / ".hooklatch/hooks.d/made.py").write_text(made("answers==2.0"))
        assert (await session.fire_tool("made"))["cause"] == "load"
        # The one before is given up sooner or later; nothing is made for what nobody has trusted.
        assert {one["requires"] for one in daemon.parts.environments.status()} <= {("answers<2",)}

        (project / ".hooklatch/hooks.toml").write_text('[[source]]\npath = "a.py"\npython = "/usr/bin/python3"\n')
        trusted = await client.call("trust", folder=str(project))
        assert "names the interpreter" in str(trusted["diagnostics"])


async def test_a_lock_is_what_is_installed_and_trusted(tmp_path: Path, wheels: Path) -> None:
    project = tmp_path / "project"
    folder = project / ".hooklatch/hooks.d"
    folder.mkdir(parents=True)
    guard = GUARD.format(imports="import answers", tool="made", reason="answers.WORD")
    (folder / "made.py").write_text(LOCKED.format(guard=guard))
    one = hash_of(wheels / "answers-1.0-py3-none-any.whl")
    (folder / "made.lock").write_text(f"answers==1.0 --hash=sha256:{one}\n")
    async with daemon_in(tmp_path) as (daemon, client), daemon.session(cwd=str(project)) as session:
        await client.call("trust", folder=str(project))
        await session.fire_tool("made")
        await settled(daemon)
        assert (await session.fire_tool("made"))["reason"] == "forty-two"  # though 2.0 is there

        (folder / "made.lock").write_text(f"answers==2.0 --hash=sha256:{one}\n")
        assert (await session.fire_tool("made"))["cause"] == "load"
        assert {one["state"] for one in daemon.parts.environments.status()} <= {"in use"}
        await client.call("trust", folder=str(project))
        await settled(daemon)
        assert "could not be made" in str(daemon.parts.reloader.active.diagnostics)


async def test_a_file_with_a_block_and_an_interpreter_has_neither(tmp_path: Path, wheels: Path) -> None:
    environment(tmp_path)
    async with daemon_in(tmp_path, {"hooks.toml": NAMED, "named.py": made("answers", tool="named")}) as (_, client):
        decision = await client.fire_tool("named")

    assert decision["cause"] == "load"
    assert "remove one of the two" in decision["reason"]
