"""A build is bytes: what its workers run is what the first one proved, whatever the disk holds when they start."""

from __future__ import annotations

import json
import os
import py_compile
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from support.daemons import Client, Daemon, running_daemon
from support.pools import replace_workers, until

IS_BAD = ("IS_BAD = True\n", "IS_BAD = False\n")
RULES = ('{"is_bad": true}', '{"is_bad": false}')
GUARD = """
import importlib
import importlib.util
import json
import os
import runpy
import sys
from pathlib import Path

from hooklatch import deny, hook

HERE = os.path.dirname(os.path.abspath(__file__))
{top}

@hook("pre_tool_use", match={tool!r}, id={tool!r}{marks})
def guard(event):
    {inside}
    return deny("held") if {value} else None
"""


class Way(NamedTuple):
    """How something reaches a hook, and its files: as they are proven, and as somebody weakens them (None: gone)."""

    top: str
    inside: str
    value: str
    files: Mapping[str, tuple[str | None, str | None]] = MappingProxyType({"lib.py": IS_BAD})
    marks: str = ""
    named: tuple[str, ...] = ()


BY_PATH = 'found = importlib.util.spec_from_file_location("lib", os.path.join(HERE, "lib.py"))\n'
BY_PATH += "lib = importlib.util.module_from_spec(found)\nfound.loader.exec_module(lib)"
ADDED = "try:\n    from local import IS_BAD\nexcept ImportError:\n    IS_BAD = True"
NAMED = {"rules.json": RULES}
WAYS = {
    "Top": Way("import lib", "pass", "lib.IS_BAD"),
    "Inside": Way("", "import lib", "lib.IS_BAD"),
    "Package": Way("", "from pkg import rules", "rules.IS_BAD", {"pkg/__init__.py": ("", ""), "pkg/rules.py": IS_BAD}),
    "Relative": Way(
        "import pkg", "pass", "pkg.judge()",
        {
            "pkg/__init__.py": ("def judge():\n    from . import deep\n    return deep.IS_BAD\n",) * 2,
            "pkg/deep.py": ("from .deeper import IS_BAD\n",) * 2,
            "pkg/deeper.py": IS_BAD,
        },
    ),
    "Star": Way(
        "from pkg import *", "pass", "rules.IS_BAD",
        {"pkg/__init__.py": ('__all__ = ["rules"]\n',) * 2, "pkg/rules.py": IS_BAD},
    ),
    "Namespace": Way("", "import space.rules", "space.rules.IS_BAD", {"space/rules.py": IS_BAD}),
    "Literal": Way("", 'lib = importlib.import_module("lib")', "lib.IS_BAD"),
    "Computed": Way('lib = importlib.import_module("li" + "b")', "pass", "lib.IS_BAD"),
    "ByPath": Way(BY_PATH, "pass", "lib.IS_BAD"),
    "RunPath": Way('lib = runpy.run_path(os.path.join(HERE, "lib.py"))', "pass", 'lib["IS_BAD"]'),
    "PathEntry": Way(
        'sys.path.insert(0, os.path.join(HERE, "deps"))', "import far", "far.IS_BAD",
        {"deps/__init__.py": ("", ""), "deps/far.py": IS_BAD},
    ),
    "Bytecode": Way("import only", "pass", "only.IS_BAD", {"only.pyc": IS_BAD}),
    "Planted": Way(
        "import lib", "pass", "lib.IS_BAD",
        {"lib.py": (IS_BAD[0], IS_BAD[0]), "__pycache__/lib.cpython-311.pyc": (None, IS_BAD[1])},
    ),
    "Added": Way(ADDED, "pass", "IS_BAD", {"local.py": (None, IS_BAD[1])}),
    "NamedModule": Way(
        "", 'lib = importlib.import_module("li" + "b")', "lib.IS_BAD", {"lib.py": IS_BAD}, named=("lib.py",)
    ),
    "Opened": Way(
        'RULES = json.load(open(os.path.join(os.path.dirname(__file__), "rules.json")))', "pass", 'RULES["is_bad"]',
        NAMED, named=("rules.json",),
    ),
    "OpenedLater": Way(
        "", 'rules = json.loads(Path(__file__).resolve().with_name("rules.json").read_text())', 'rules["is_bad"]',
        NAMED, ', files=["rules.json"]',
    ),
    "Asked": Way(
        "", 'path = os.path.join(HERE, "rules.json")', 'os.path.exists(path) and os.path.getsize(path) == 16',
        NAMED, ', files=["rules.json"]',
    ),
    "Descriptor": Way(
        "", 'fd = os.open(os.path.join(HERE, "rules.json"), os.O_RDONLY)\n    rules = json.load(os.fdopen(fd))',
        'rules["is_bad"]', NAMED, named=("rules.json",),
    ),
}  # fmt: skip
UNREADABLE = "strict/Namespace"  # a directory without __init__.py is not code
# Each way where nothing keeps a worker from the disk, and at one of the other levels, in turn.
PLACES = [
    place
    for number, name in enumerate(WAYS)
    for level in ("standard", ("restricted", "strict")[number % 2])
    if (place := f"{level}/{name}") != UNREADABLE
]


def put(folder: Path, *, is_weak: bool) -> None:
    """Write the files of every way, each at once: aside, then renamed."""
    for place in PLACES:
        for name, versions in WAYS[place.partition("/")[2]].files.items():
            path, text = folder / place / name, versions[is_weak]
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink(missing_ok=True)
                continue
            aside = folder / "aside"
            aside.write_text(text)
            if path.suffix == ".pyc":
                mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
                py_compile.compile(str(aside), str(aside), doraise=True, invalidation_mode=mode)
            aside.rename(path)


def remove(folder: Path) -> None:
    for place in PLACES:
        for name in WAYS[place.partition("/")[2]].files:
            (folder / place / name).unlink(missing_ok=True)


@asynccontextmanager
async def guarded(folder: Path) -> AsyncGenerator[Daemon]:
    tables: list[str] = []
    for place in PLACES:
        level, name = place.split("/")
        way = WAYS[name]
        (folder / place).mkdir(parents=True)
        values = {"tool": place, "marks": way.marks, "top": way.top, "inside": way.inside, "value": way.value}
        (folder / place / "guards.py").write_text(GUARD.format(**values))
        tables.append(f'[[source]]\npath = "{place}/guards.py"\nisolation = "{level}"\nworkers = 2\n')
        tables[-1] += f"files = {json.dumps(list(way.named))}\n" if way.named else ""
    put(folder, is_weak=False)
    config = '[isolation]\nif_unavailable = "report"\n' + "".join(tables)
    async with running_daemon(folder, {"hooks.toml": config}) as daemon:
        assert [str(one) for one in daemon.parts.reloader.active.diagnostics] == []
        yield daemon


async def decisions(client: Client, *, times: int) -> dict[str, set[tuple[str, str]]]:
    """Fire at the guard of each place; return what they said, without those that died while they waited."""
    found: dict[str, set[tuple[str, str]]] = {}
    for place in PLACES:
        for _ in range(times):
            decision = await client.fire_tool(place)
            found.setdefault(place, set()).add((decision["verdict"], decision["cause"]))
    return found


HELD = {place: {("deny", "policy")} for place in PLACES}


@pytest.mark.slow  # 37 sources are built, and their workers replaced four times
async def test_whatever_is_swapped_while_workers_start_they_decide_as_the_one_that_proved_the_build(
    tmp_path: Path,
) -> None:
    async with guarded(tmp_path) as daemon, daemon.session() as client, daemon.administrator() as admin:
        assert await decisions(client, times=1) == HELD

        async with daemon.parts.reloader._lock:  # no reload takes the files of that moment
            for damage in (lambda: put(tmp_path, is_weak=True), lambda: remove(tmp_path)):
                damage()
                await replace_workers(daemon)
                assert await decisions(client, times=2) == HELD
            put(tmp_path, is_weak=False)
        assert await decisions(client, times=2) == HELD

        put(tmp_path, is_weak=True)
        assert (await admin.call("reload"))["diagnostics"] == []
        for place, said in (await decisions(client, times=2)).items():
            is_held = place.endswith("/Planted")  # cached bytecode is no part of a build
            assert said == {("deny", "policy")} if is_held else {("allow", "policy")}, place


REFUSED = """
import importlib
import sys
from hooklatch import deny, hook

@hook("pre_tool_use", match="Plain", id="plain")
def plain(event):
    importlib.import_module("la" + "ter")
    return None

@hook("pre_tool_use", match="Swallowed", id="swallowed")
def swallowed(event):
    try:
        importlib.import_module("la" + "ter")
    except ImportError:
        pass
    return None

@hook("pre_tool_use", match="Well", id="well")
def well(event):
    return deny("well")
"""


@pytest.mark.slow  # a daemon
async def test_a_module_that_is_not_in_the_build_is_refused_by_every_worker_whatever_the_hook_makes_of_it(
    tmp_path: Path,
) -> None:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": REFUSED, "later.py": ""}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        for _ in range(2):
            for tool in ("Plain", "Swallowed"):
                decision = await client.fire_tool(tool)
                assert (decision["verdict"], decision["cause"]) == ("deny", "load")
                assert f"{tmp_path}/later.py is not in the build" in decision["reason"]
            assert (await client.fire_tool("Well"))["reason"] == "well"
            await replace_workers(daemon)


LISTED = """
import importlib
import os
from hooklatch import deny, hook

rules = [importlib.import_module(name[:-3]) for name in os.listdir(os.path.dirname(__file__)) if "rule_" in name]

@hook("pre_tool_use")
def guard(event):
    return deny("listed") if any(rule.IS_BAD for rule in rules) else None
"""


@pytest.mark.slow  # a daemon
async def test_when_a_worker_ran_other_files_than_the_first_one_the_whole_build_denies_until_it_is_built_anew(
    tmp_path: Path,
) -> None:
    rules = {"rule_one.py": "IS_BAD = False\n", "rule_two.py": "IS_BAD = True\n"}
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": LISTED, **rules}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client, daemon.administrator() as admin:
        (pool,) = daemon.parts.sources.pools.values()
        (tmp_path / "rule_two.py").rename(tmp_path / "away")
        os.kill(daemon.worker_pids[0], signal.SIGKILL)
        await until(lambda: pool.fault)
        (tmp_path / "away").rename(tmp_path / "rule_two.py")

        decisions = [await client.fire_tool("Bash") for _ in range(4)]

        assert {(one["verdict"], one["cause"]) for one in decisions} == {("deny", "load")}
        assert "did not run" in decisions[0]["reason"]
        assert any("rule_two.py" in str(one) for one in (await admin.call("status"))["problems"])
        await admin.call("reload")
        assert (await client.fire_tool("Bash"))["reason"] == "listed"


NAMING = 'from hooklatch import hook\n{before}\n@hook("stop", files={files})\ndef look(event):\n    return None\n'


@pytest.mark.slow  # a daemon
async def test_a_file_that_cannot_be_held_is_a_fault_that_says_why(tmp_path: Path) -> None:
    cases = {  # what the source says before its hook, what that names, and which file the fault is of
        "absent.py": ("", '["absent.json"]', "absent.json", "absent.json cannot be read: No such file"),
        "computed.py": ('NAMES = ["rules.json"]', "NAMES", "computed.py", "write the names there as literals"),
        "above.py": ("", '["../rules.json"]', "above.py", "in the folder of the hooks' file or below it"),
        "secret.py": ("", '["hooks.d/own.toml"]', "own.toml", "declares hooks"),
        "open.py": ("", '["open.json"]', "open.json", "chmod go-w"),
        "large.py": ("", '["large.bin", "large.too"]', "large.too", "is over 16 MiB"),
    }
    config = "".join(f'[[source]]\npath = "{name}"\n' for name in cases)
    config += '[[source]]\npath = "missing.py"\nfiles = ["gone.json"]\n'
    sources = {name: NAMING.format(before=before, files=files) for name, (before, files, _, _) in cases.items()}
    said = {file: text for _, _, file, text in cases.values()} | {"gone.json": "there is no such file, which files of"}
    for name in ("rules.json", "open.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "open.json").chmod(0o666)
    for name in ("large.bin", "large.too"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(9 * 2**20)

    async with running_daemon(tmp_path, {"hooks.toml": config, "missing.py": "", **sources}) as daemon:
        found = {Path(one.file).name: one.message for one in daemon.parts.reloader.active.diagnostics}

    assert found.keys() == said.keys()
    for name, text in said.items():
        assert text in found[name]


PROJECT = """
import json
import os

from hooklatch import deny, hook

RULES = json.load(open(os.path.join(os.path.dirname(__file__), "rules.json")))

@hook("pre_tool_use")
def guard(event):
    import lib

    return deny("project") if RULES["is_bad"] and lib.IS_BAD else None
"""


@pytest.mark.slow  # a daemon
async def test_what_is_swapped_in_a_trusted_project_and_put_back_leaves_no_worker_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".hooklatch"
    folder.mkdir(parents=True)
    proven = {"g.py": PROJECT, "lib.py": IS_BAD[0], "rules.json": RULES[0]}
    proven["hooks.toml"] = '[[source]]\npath = "g.py"\nfiles = ["rules.json"]\n'
    for name, text in proven.items():
        (folder / name).write_text(text)
    async with running_daemon(tmp_path, {"hooks.toml": ""}) as daemon, daemon.administrator() as admin:
        await admin.call("trust", folder=str(folder.parent))
        async with daemon.session(cwd=str(folder.parent)) as client:
            assert (await client.fire_tool("Bash"))["reason"] == "project"
            for name, weak in (("lib.py", IS_BAD[1]), ("rules.json", RULES[1])):
                (folder / name).rename(tmp_path / "aside")
                (folder / name).write_text(weak)
                await replace_workers(daemon)
                assert (await client.fire_tool("Bash"))["cause"] == "load"  # it is not what was trusted
                (tmp_path / "aside").rename(folder / name)

            decisions = [await client.fire_tool("Bash") for _ in range(8)]

            assert {one["reason"] for one in decisions} == {"project"}
            assert str(folder / "rules.json") in daemon.parts.reloader.digests()
