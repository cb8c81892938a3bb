"""Programs are started in one place, each with a whole environment: `hooklatch_worker/sandbox/children.py`.

What is shipped is looked at: bench/ and tests/ start programs as they need them.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hooklatch
import hooklatch_worker
from hooklatch_worker.sandbox import children
from support.tables import table

SUPERVISOR = Path(hooklatch.__file__).parent
WORKER = Path(hooklatch_worker.__file__).parent
ROOM = WORKER / "sandbox/children.py"
# Functions that start a program or fork, by their modules; of some modules each may.
OF_OS = frozenset(
    {
        *("posix_spawn", "posix_spawnp", "system", "popen", "fork", "forkpty", "startfile"),
        *(f"exec{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
        *(f"spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    }
)
OF_LOOPS = frozenset({"run_process", "open_process", "create_subprocess_exec", "create_subprocess_shell"})
STARTING: dict[str, frozenset[str] | None] = {
    "os": OF_OS, "posix": OF_OS, "trio": OF_LOOPS, "trio.lowlevel": OF_LOOPS, "anyio": OF_LOOPS, "asyncio": OF_LOOPS,
    "subprocess": None, "_posixsubprocess": None, "asyncio.subprocess": None, "pty": None, "webbrowser": None,
    "multiprocessing": None, "multiprocessing.context": None, "concurrent.futures": frozenset({"ProcessPoolExecutor"}),
}  # fmt: skip
HARMLESS = "_args_from_interpreter_flags"
# Methods that do, on whatever object.
METHODS = frozenset({"Popen", "posix_spawn", "subprocess_exec", "subprocess_shell", "fork_exec", *OF_LOOPS})
# Elsewhere: what is started, and why it cannot be started in that place.
ELSEWHERE = {
    # In C it is in entry.c; an agent waits for this module's imports, so it may have none.
    "hooklatch/entry/asking.py": ["posix_spawn"],
    # Asynchronous pipes, under trio and asyncio; with the environment of that place.
    "hooklatch/bridges/mcp.py": ["open_process"],
    # A file of an author, which may import what authors may; with a list of its own.
    "hooklatch/guards/gallery/format_after_edit.py": ["run"],
    # Forks run our own code, on with the environment that it has.
    "hooklatch/cli/daemon/serve.py": ["fork"],
    "hooklatch_worker/runtime/guardian.py": ["fork"],
    "hooklatch_worker/runtime/zygote.py": ["get_context"],
    "hooklatch_worker/runtime/shell_command.py": ["fork"],
    "hooklatch_worker/systems/portable.py": ["fork"],
}
SOURCES = [path for root in (SUPERVISOR, WORKER) for path in sorted(root.rglob("*.py")) if path != ROOM]


def starts(text: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call that may start a program, in code and in texts that hold code."""
    tree = ast.parse(text)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\nimport " in f"\n{node.value}":
            try:
                yield from starts(node.value)
            except SyntaxError:
                continue
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        above, _, name = name_of(node.func).rpartition(".")
        first, _, rest = above.partition(".")
        module = names.get(above or name, "") if not rest else f"{names.get(first, '')}.{rest}"
        if not above:
            module, _, name = module.rpartition(".")
        chosen = STARTING.get(module, frozenset())
        if name != HARMLESS and (chosen is None or name in chosen or (above and name in METHODS)):
            yield name, node


def name_of(function: ast.expr) -> str:
    """Return the dotted name of what is called; `()` stands for an object that has no name."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{name_of(value)}.{name}"
        case _:
            return "()"


@table("path", SOURCES, ids=lambda path: str(path.relative_to(path.parents[1])))
def test_nothing_else_starts_a_program(path: Path) -> None:
    root = SUPERVISOR if path.is_relative_to(SUPERVISOR) else WORKER
    name = str(path.relative_to(root.parent))
    found = {word for word, _ in starts(path.read_text())}

    assert found <= set(ELSEWHERE.get(name, [])), f"{name} starts a program; have sandbox/children.py start it"


def test_the_other_places_are_still_there() -> None:
    for name, words in ELSEWHERE.items():
        root = SUPERVISOR if name.startswith("hooklatch/") else WORKER
        assert {word for word, _ in starts((root.parent / name).read_text())} == set(words), name


@table(
    "text",
    [
        "import subprocess\nsubprocess.run(['x'])",
        "from subprocess import Popen as P\nP(['x'])",
        "import subprocess as s\ns.check_output('x')",
        "import os\nos.execve('x', [], {})",
        "import os\nos.system('x')",
        "import trio\ntrio.run_process(['x'])",
        "from asyncio import create_subprocess_exec as c\nc('x')",
        "import webbrowser\nwebbrowser.open('x')",
        "import pty\npty.spawn('x')",
        "import os.path\nimport os\nos.fork()",
        "self._loop.subprocess_exec(x)",
        "from multiprocessing import Process\nProcess(target=x)",
        "CODE = '''import subprocess\nsubprocess.Popen(['x'])\n'''",
    ],
)
def test_each_way_of_starting_a_program_is_found(text: str) -> None:
    assert list(starts(text))


@pytest.mark.parametrize("place", ["hooklatch/bridges/mcp.py", "hooklatch/guards/gallery/format_after_edit.py"])
def test_what_is_started_elsewhere_has_an_environment_too(place: str) -> None:
    calls = [call for _, call in starts((SUPERVISOR.parent / place).read_text())]

    assert calls
    assert all("env" in [keyword.arg for keyword in call.keywords] for call in calls)


HOSTILE = {
    "PATH": "::.:/usr/bin:bin:/bin", "HOME": "/h", "PYTHONPATH": ".", "PYTHONHOME": "/x", "LD_PRELOAD": "./x.so",
    "LD_LIBRARY_PATH": ".", "HOOKLATCH_PARENT": "secret", "HOOKLATCH_FLEET_PASSWORD": "secret", "AWS_SECRET": "s",
    "HOOKLATCH_RUNTIME_DIR": "/r", "GIT_DIR": "/g", "BASH_ENV": "./x", "ENV": "./x", "NODE_OPTIONS": "-r ./x",
    "PERL5OPT": "-Mx", "RUBYOPT": "-rx", "GCC_EXEC_PREFIX": "/x",
}  # fmt: skip


@pytest.mark.parametrize("name", ["OWN", "SHELL_HOOK", "INSTALLER", "GIT", "COMPILER"])
def test_no_list_has_what_decides_which_code_runs(name: str) -> None:
    found = getattr(children, name).of(HOSTILE)

    assert found.keys() <= {"PATH", "HOME", "HOOKLATCH_RUNTIME_DIR"}
    assert found.get("PATH", "/usr/bin:/bin") == "/usr/bin:/bin"


def test_who_owns_a_worker_can_be_seen() -> None:
    assert children.OWN.of(HOSTILE).keys() >= {"HOME", "HOOKLATCH_RUNTIME_DIR"}


def test_a_program_gets_its_environment_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLATCH_LEAK", "1")

    done = children.run_child(["/usr/bin/env", "-0"], {"A": "1"}, timeout=60)

    assert done.stdout == b"A=1\0"


def test_our_own_python_runs_nothing_of_the_environment(tmp_path: Path) -> None:
    for name in ("sitecustomize.py", "json.py"):
        (tmp_path / name).write_text("import os; os._exit(3)\n")
    environ = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path)}

    done = children.run_child(
        children.isolated_command(sys.executable, "-c", "import json"), environ, timeout=60, cwd=str(tmp_path)
    )

    assert (done.returncode, done.stderr) == (0, b"")
