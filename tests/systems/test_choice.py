"""One place asks which system this is, and what it chooses from has the same names and parameters."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hooklatch_worker.sandbox import isolation
from hooklatch_worker.systems import darwin, darwin_disks, disks, linux, linux_disks, portable, system
from hooklatch_worker.wire import Isolation, Source
from support.repository import ROOT
from systems.fake_darwin import FakeSelect

ASKING = re.compile(r"sys\.platform|platform\.system\(|os\.uname\(\)\.sysname|os\.name\b|from sys import .*platform")
ROOM = ("systems/__init__.py", "systems/disks.py")
# Commands that look for other programs' files, which are elsewhere on each system.
OF_HOSTS = "supervisor/hooklatch/cli/hosts/"


def asks(text: str) -> bool:
    """Return whether code asks for its system, in whatever string it is too."""
    return any(ASKING.search(ast.unparse(node)) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))


def test_which_system_this_is_is_asked_in_one_place() -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("supervisor", "workers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if asks(path.read_text()) and not path.relative_to(ROOT).as_posix().startswith(OF_HOSTS)
    ]

    assert found == [f"workers/hooklatch_worker/{name}" for name in ROOM]
    assert asks("import sys\nif sys.platform == 'darwin': ...")


def parameters(function: object) -> list[str]:
    """Return the parameters, as they are named, ordered and defaulted."""
    assert callable(function)
    found = inspect.signature(function).parameters.values()
    return [f"{one.name} {one.kind.description} {one.default}" for one in found]


@pytest.mark.parametrize("name", linux.__all__)
def test_each_name_of_linux_is_there_on_others(name: str) -> None:
    assert system is linux
    here, other = getattr(linux, name), getattr(darwin.system, name)

    if name == "EventSet":
        made = [here(), other(FakeSelect())]
        names = [name for name in vars(portable.WatchedDescriptors) if not name.startswith("_")]
        assert len(names) == 6
        assert [(type(one).__name__, name) for one in made for name in names if not hasattr(one, name)] == []
        made[0].close()
    elif callable(here):
        assert parameters(here) == parameters(other)


@pytest.mark.parametrize("name", disks.__all__)
def test_each_name_for_disks_is_there_on_others(name: str) -> None:
    assert getattr(disks, name) == getattr(linux_disks, name)
    assert parameters(getattr(linux_disks, name)) == parameters(getattr(darwin_disks, name))


def test_a_fire_looks_at_paths_by_a_function_that_was_chosen_before() -> None:
    assert disks.is_plain is linux_disks.is_plain


@pytest.mark.parametrize("module", ["", ".disks"])
def test_another_system_is_chosen_where_this_is_one(module: str) -> None:
    """As far as an import goes: of what is there no call is made."""
    code = (
        "import sys; sys.platform = 'darwin'; "
        f"import hooklatch_worker.systems{module} as room; print(sorted(n for n in sys.modules if '.systems.' in n))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path("/"))

    assert ".systems.darwin" in done.stdout
    assert ".systems.linux" not in done.stdout


def test_levels_that_need_a_kernel_of_linux_are_refused_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "system", darwin.system)

    for level in ("restricted", "strict"):
        wanted = Isolation(level=level)
        with pytest.raises(isolation.IsolationError, match=r"Linux 6[.]12 or later with Landlock"):
            isolation.confine_process(wanted, Source("module", "json"), "1")
        effective = isolation.find_effective_isolation(isolation.detect_kernel(), wanted)
        assert effective.level == "standard"
        assert "refusing writes (Landlock, Linux 5.13)" in effective.missing
    assert isolation.find_effective_isolation(isolation.detect_kernel(), Isolation()).missing == []
