"""What an import loads, and which part may import which."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hooklatch
import hooklatch_worker

SUPERVISOR = Path(hooklatch.__file__).parent
WORKER = Path(hooklatch_worker.__file__).parent

HEAVY = {"trio", "psutil", "re2", "anyio", "watchfiles"}
# The floors, and the parts beside them, each with what it may import of the others.
GROUND = {"errors", "paths", "version"}
BELOW = {
    "core": {"errors"},
    "processes": {"core", *GROUND},
    "record": {"core", *GROUND},
    "service": {"processes", "record", "dialects", "importing", "core", *GROUND},
    "client": {"core", *GROUND},
    "hosts": {"paths"},
    "dialects": {"hosts", "core"},
    "importing": {"dialects", "hosts", "core"},
    "cli": {"service", "processes", "record", "client", "hosts", "dialects", "importing", "core", *GROUND},
    "__main__": {"cli"},
    **{name: set[str]() for name in GROUND},
}
SHELLS = {"trio", "socket", "asyncio", "threading", "multiprocessing", "subprocess", "time", "psutil", "os", "select"}
SANS_IO = [
    "core", "exchange", "decisions", "fires", "liveness", "announcements", "answers", "served", "breaker", "tool_calls",
    "tool_runs", "standing",
]  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after the statement, and had not before."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def modules_of(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def imports_of(path: Path) -> Iterator[str]:
    """The modules that a file names in imports, those for type checkers left out."""
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports by a relative name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            pending += ast.iter_child_nodes(node)


ALL = [*modules_of(SUPERVISOR), *modules_of(WORKER)]


@pytest.mark.parametrize(
    "statement", ["import hooklatch", "from hooklatch import deny, hook", "from hooklatch import Event, Verdict, hook"]
)
def test_an_authors_file_loads_nothing_heavy(statement: str) -> None:
    assert not loaded_by(statement) & HEAVY


def test_the_package_itself_loads_nothing() -> None:
    assert loaded_by("import hooklatch") == {"hooklatch"}


def test_the_workers_part_needs_msgspec_alone() -> None:
    loaded = loaded_by("import hooklatch_worker")

    assert "msgspec" in loaded
    assert not loaded & {"hooklatch", "trio", "asyncio", "socket", "multiprocessing"}


def test_the_client_for_threads_loads_no_trio() -> None:
    assert not loaded_by("from hooklatch import connect_sync") & HEAVY


RUN = """
from hooklatch import connect
async def main():
    async with connect('/nobody/agent.sock') as s: await s.fire('stop')
{library}.run(main{call})
"""


def loaded_by_a_session(library: str, call: str) -> set[str]:
    lines = RUN.format(library=library, call=call)
    return loaded_by(f"import {library}; exec({lines!r}, globals())")


def test_the_client_for_both_libraries_loads_neither() -> None:
    assert not loaded_by("from hooklatch import connect") & {*HEAVY, "asyncio"}


def test_a_session_under_trio_loads_nothing_of_the_daemon() -> None:
    loaded = loaded_by_a_session("trio", "")

    assert "hooklatch.client.trio_runtime" in loaded
    assert not loaded & {"asyncio", "psutil", "re2", "watchfiles"}


def test_a_session_under_asyncio_loads_no_trio() -> None:
    loaded = loaded_by_a_session("asyncio", "()")

    assert "hooklatch.client.asyncio_runtime" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("name", hooklatch.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(hooklatch, name).__name__.rpartition(".")[2] == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'denny'"):
        hooklatch.denny  # noqa: B018 - the access is the act


@pytest.mark.parametrize("name", [name for name, _ in ALL if name.startswith("hooklatch.core.")])
def test_the_core_knows_no_shell(name: str) -> None:
    path = dict(ALL)[name]

    assert not {imported.partition(".")[0] for imported in imports_of(path)} & SHELLS
    assert not loaded_by(f"import {name}") & {"trio", "asyncio", "socket", "multiprocessing", "psutil"}


@pytest.mark.parametrize("name", SANS_IO)
def test_the_clients_core_knows_no_shell(name: str) -> None:
    imported = {one.partition(".")[0] for one in imports_of(SUPERVISOR / f"client/{name}.py")}

    assert not imported & (SHELLS - {"os"})  # os.urandom names a decision that was made here


@pytest.mark.parametrize(("name", "path"), [pytest.param(*one, id=one[0]) for one in ALL])
def test_imports_point_downwards(name: str, path: Path) -> None:
    here = name.split(".")
    imported = [one.split(".") for one in imports_of(path)]
    ours = {one[1] for one in imported if one[0] == "hooklatch" and len(one) > 1}

    if here[0] == "hooklatch_worker":
        assert not [one for one in imported if one[0] == "hooklatch"]
    elif len(here) > 1:
        assert ours <= BELOW[here[1]] | {here[1]}


def test_hosts_need_nothing_but_the_interpreter() -> None:
    imported = {one.partition(".")[0] for _, path in modules_of(SUPERVISOR / "hosts") for one in imports_of(path)}

    assert imported <= sys.stdlib_module_names | {"hooklatch"}
