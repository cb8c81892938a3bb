"""What an import loads, and which part may import which."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hooklatch
import hooklatch_worker
from support.tables import table

SUPERVISOR = Path(hooklatch.__file__).parent
WORKER = Path(hooklatch_worker.__file__).parent

HEAVY = {"trio", "psutil", "re2", "anyio", "tomlkit"}
# The floors, and the parts beside them, each with what it may import of the others.
GROUND = {
    "credentials", "darwin_credentials", "directories", "disks", "errors", "file_safety", "files", "path_lookup",
    "paths", "products", "threads", "version",
}  # fmt: skip
# What is beside the core, and reached by entry points alone: the core imports none of it, not even for types.
PRODUCTS = {
    *(
        "fleet",
        "environments",
        "metrics",
        "lsp",
        "notifications",
        "webhook",
        "git_sources",
        "guards",
        "dashboard",
        "importing",
    ),
    *("bridges", "testing", "cli"),
}
CORE_PARTS = {"core", "processes", "record", "service", "shelltext"}
BELOW = {
    "shelltext": set(),
    "core": {"errors", "shelltext"},
    "processes": {"core", *GROUND},
    "record": {"core", *GROUND},
    "service": {"processes", "record", "dialects", "hosts", "core", "shelltext", *GROUND},  # the names of tools
    "client": {"core", *GROUND},
    "fleet": {"service", "dialects", "processes", "client", "record", "core", *GROUND},
    "environments": {"processes", "core", *GROUND},
    "metrics": {"service", "record", "core", *GROUND},
    "lsp": {"service", "core"},
    "git_sources": {"service", *GROUND},
    "notifications": {"service", "environments", "webhook", "core", *GROUND},
    "webhook": set(),
    "hosts": {"core"},
    "bridges": {"client", "hosts", "core", *GROUND},
    "entry": {"credentials", "files", "paths", "hosts", "threads", "core"},
    "dialects": {"hosts", "core"},
    "guards": {"shelltext"},
    "dashboard": {"client", "record", "core", *GROUND},
    "testing": {"service", "hosts", "core", "path_lookup", "paths"},
    "importing": {"service", "dialects", "hosts", "core"},
    "cli": {
        "service",
        "processes",
        "record",
        "bridges",
        "client",
        "dashboard",
        "environments",
        "fleet",
        "git_sources",
        "hosts",
        "entry",
        "dialects",
        "importing",
        "lsp",
        "testing",
        "guards",
        "shelltext",
        "core",
        *GROUND,
    },
    "__main__": {"cli"},
    **{name: set[str]() for name in GROUND},
    "credentials": {"darwin_credentials"},
    "directories": {"files"},
    "file_safety": {"directories", "disks"},
    "path_lookup": {"disks", "errors", "file_safety"},
    "threads": {"disks"},
}
# The rooms of each part, lowest first: a room imports itself and those before it.  What stands beside the rooms,
# at the part's root, is free; that nothing goes round in a circle holds for all.
ROOMS = {
    "hooklatch.service": ("config", "registry", "dispatch", "loading", "transport", "api"),
    "hooklatch.client": ("protocol",),
    "hooklatch.core": ("hooks",),
    "hooklatch.record": ("storage",),
    "hooklatch.shelltext": ("grammar", "reading"),
    "hooklatch.guards": ("paths",),
    "hooklatch.fleet": ("engine", "publishing", "logs", "link", "host"),
    "hooklatch.cli": ("terminal", "testing", "fleet", "hooks", "hosts", "daemon"),
    "hooklatch_worker": ("author", "systems", "sandbox", "lsp", "runtime"),
}
SHELLS = {"trio", "socket", "asyncio", "threading", "multiprocessing", "subprocess", "time", "psutil", "os", "select"}
SANS_IO = [f"{room}/{path.name}" for room in ("protocol",) for path in (SUPERVISOR / "client" / room).glob("*.py")]


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after the statement, and had not before."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def modules_of(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def imports_of(path: Path, *, for_types: bool = False) -> list[str]:
    """Return the modules that a file names in imports; those for type checkers alone only where `for_types`."""
    found, of_types = both_imports_of(path)
    return found + of_types if for_types else found


@functools.cache
def both_imports_of(path: Path) -> tuple[list[str], list[str]]:
    """Return the modules that a file names in imports, and those that it names for type checkers alone."""
    found: list[str] = []
    of_types: list[str] = []
    pending: list[tuple[ast.AST, list[str]]] = [(ast.parse(path.read_text()), found)]
    while pending:
        node, into = pending.pop()
        if isinstance(node, ast.Import):
            into += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports by a relative name"
            into += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending += ((one, of_types) for one in ast.iter_child_nodes(node))
        elif not isinstance(node, ast.expr):  # no expression holds a statement
            pending += ((one, into) for one in ast.iter_child_nodes(node))
    return found, of_types


ALL = [*modules_of(SUPERVISOR), *modules_of(WORKER)]
PACKAGES = {name for name, path in ALL if path.name == "__init__.py"}


@functools.cache
def graph() -> dict[str, set[str]]:
    """Return the modules that each module imports, for types alone too."""
    names = {name for name, _ in ALL}
    edges = {
        name: {known for one in imports_of(path, for_types=True) if (known := known_part(one, names)) is not None}
        for name, path in ALL
    }
    return {name: found - {name} for name, found in edges.items() if name != "hooklatch"}  # it names what it exports


def known_part(imported: str, names: set[str]) -> str | None:
    return imported if imported in names else above if (above := imported.rpartition(".")[0]) in names else None


def room_of(name: str) -> str:
    """Return the folder of a module, or the module where it stands beside folders or is itself one."""
    folder = name.rpartition(".")[0]
    return folder if any(folder == f"{part}.{room}" for part, rooms in ROOMS.items() for room in rooms) else name


def circles(edges: dict[str, set[str]]) -> list[str]:
    try:
        list(graphlib.TopologicalSorter(edges).static_order())
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize(
    "statement", ["import hooklatch", "from hooklatch import deny, hook", "from hooklatch import Event, Verdict, hook"]
)
def test_an_authors_file_loads_nothing_heavy(statement: str) -> None:
    assert not loaded_by(statement) & HEAVY


def test_the_daemon_loads_nothing_that_writes_toml_and_no_tables_of_programs() -> None:
    tables = {"hooklatch.guards"}

    assert not loaded_by("import hooklatch.service.daemon") & {"tomlkit", *tables}


def test_the_package_itself_loads_nothing() -> None:
    assert loaded_by("import hooklatch") == {"hooklatch"}


def test_the_workers_part_needs_msgspec_alone() -> None:
    loaded = loaded_by("from hooklatch_worker import Event, chain, deny, hook")

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

    assert {"hooklatch.client.async_connection", "anyio._backends._trio"} <= loaded
    assert not loaded & {"asyncio", "psutil", "re2"}


def test_a_session_under_asyncio_loads_no_trio() -> None:
    loaded = loaded_by_a_session("asyncio", "()")

    assert {"hooklatch.client.async_connection", "anyio._backends._asyncio"} <= loaded
    assert not loaded & (HEAVY - {"anyio"})


@table("name", hooklatch.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(hooklatch, name).__name__.rpartition(".")[2] == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'denny'"):
        hooklatch.denny  # noqa: B018 - the access is the act


CORE = [(name, path) for name, path in ALL if name.startswith("hooklatch.core.")]


@table(("name", "path"), CORE)
def test_the_core_knows_no_shell(name: str, path: Path) -> None:
    assert not {imported.partition(".")[0] for imported in imports_of(path)} & SHELLS


def test_the_core_loads_no_shell() -> None:
    all_of_it = ", ".join(name for name, _ in CORE)

    assert not loaded_by(f"import {all_of_it}") & {"trio", "asyncio", "socket", "multiprocessing", "psutil"}


@table("name", SANS_IO)
def test_the_clients_core_knows_no_shell(name: str) -> None:
    imported = {one.partition(".")[0] for one in imports_of(SUPERVISOR / "client" / name)}

    assert not imported & (SHELLS - {"os"})  # os.urandom names a decision that was made here


@table(("name", "path"), ALL)
def test_imports_point_downwards(name: str, path: Path) -> None:
    here = name.split(".")
    imported = [one.split(".") for one in imports_of(path)]
    ours = {one[1] for one in imported if one[0] == "hooklatch" and len(one) > 1}

    if name.startswith("hooklatch.guards.gallery."):  # as authors write them
        assert ours <= {"guards", "shelltext", *hooklatch.__all__}
    elif here[0] == "hooklatch_worker":
        assert not [one for one in imported if one[0] == "hooklatch"]
    elif len(here) > 1:
        assert ours <= BELOW[here[1]] | {here[1]}


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert circles(graph()) == []


def test_no_room_imports_itself_by_way_of_others() -> None:
    edges: dict[str, set[str]] = {}
    for name, found in graph().items():
        edges.setdefault(room_of(name), set()).update(room_of(one) for one in found)

    assert circles({room: found - {room} for room, found in edges.items()}) == []


@pytest.mark.parametrize(("part", "rooms"), ROOMS.items(), ids=ROOMS)
def test_rooms_import_only_those_below_them(part: str, rooms: tuple[str, ...]) -> None:
    for name, found in graph().items():
        here = room_of(name).removeprefix(f"{part}.")
        if here in rooms:
            above = {f"{part}.{room}" for room in rooms[rooms.index(here) + 1 :]}
            assert not above & {room_of(one) for one in found}, name


@table("name", sorted(name for name, _ in ALL if name.split(".")[1:2] and name.split(".")[1] in CORE_PARTS))
def test_the_core_imports_no_product(name: str) -> None:
    """Not for types either, nor in a function: entry points name what is beside the core."""
    path = dict(ALL)[name]
    parts = {
        imported.split(".")[1] for imported in imports_of(path, for_types=True) if imported.startswith("hooklatch.")
    }

    assert not parts & PRODUCTS
    assert not [one for one in imports_of(path, for_types=True) if one.startswith("hooklatch_worker.lsp")]


def test_each_room_has_a_place_among_the_others() -> None:
    named = {f"{part}.{room}" for part, rooms in ROOMS.items() for room in rooms}
    found = {name for name in PACKAGES if name.count(".") > name.startswith("hooklatch.")}

    assert found == named


BRIDGES = {
    "claude_agent_sdk": {"claude_agent_sdk"},
    "google_adk": {"google"},
    "langchain": {"langchain", "langchain_core", "langgraph"},
    "openai_agents": {"agents"},
    "pydantic_ai": {"pydantic_ai", "pydantic_core"},
    "strands": {"strands"},
}


def test_a_bridge_imports_its_own_sdk_and_no_other() -> None:
    ours = sys.stdlib_module_names | {"hooklatch", "hooklatch_worker", "anyio", "msgspec"}
    for path in (SUPERVISOR / "bridges").glob("*.py"):
        found = {one.partition(".")[0] for one in imports_of(path)} - ours

        assert found == BRIDGES.get(path.stem, set()), path.name


def test_the_proxy_for_mcp_loads_no_sdk() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("import hooklatch.cli.hosts.mcp")}

    assert not loaded & {"mcp", "pydantic", "asyncio", *(name for names in BRIDGES.values() for name in names)}


def test_entries_need_nothing_but_the_interpreter() -> None:
    """The others run before an agent does, or only where no daemon runs."""
    others = ("listener.py", "building.py", "starting.py")
    files = [path for _, path in modules_of(SUPERVISOR / "entry") if path.name not in others]
    imported = {one.partition(".")[0] for path in files for one in imports_of(path)}

    assert imported <= sys.stdlib_module_names | {"hooklatch"}


def test_what_an_agent_waits_for_imports_builtin_modules_alone() -> None:
    loaded = loaded_by("import hooklatch.entry.asking")

    assert loaded - {"_socket"} == {
        "hooklatch",
        "hooklatch.core",
        "hooklatch.core.failures",
        "hooklatch.core.refusal_texts",
        "hooklatch.credentials",
        "hooklatch.paths",
        "hooklatch.entry",
        "hooklatch.entry.asking",
        "hooklatch.entry.refusals",
    }
