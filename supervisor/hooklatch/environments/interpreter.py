"""Looks at an interpreter: who could have written it, which Python it is, and what it would import from where.

Whoever can write to an interpreter or its packages decides what guards do; so the rule for files of hooks applies to
all of it.  Looking runs the interpreter without `site`, so no code of its packages runs.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import stat
import sysconfig
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
import trio

import hooklatch
import hooklatch_worker
from hooklatch.disks import find_lane, limit_look
from hooklatch.environments.commands import run_program
from hooklatch.errors import describe_error
from hooklatch.processes.guardian import Interpreter
from hooklatch_worker.sandbox.children import OWN, isolated_command
from hooklatch_worker.sandbox.safety import (
    UnsafeFileError,
    check_file,
    check_folders,
    read_safely,
    stamp_parent_folders,
)

__all__ = [
    "LEAST",
    "OURS",
    "SPARES",
    "EnvironmentFaultError",
    "Mark",
    "examine_interpreter",
    "inspect_in_thread",
    "stamp_interpreter_file",
    "read_soabi",
]

LEAST = (3, 11)
LOOK_TIMEOUT = 20.0  # seconds; enough for a cold start on a busy machine
MOST_ENTRIES = 200_000  # files below an environment; more is not one
SPARES = ("msgspec",)  # what ours need; compiled, so only for the same ABI
OURS = {
    package.__name__: os.path.dirname(os.path.dirname(os.path.abspath(package.__file__ or "")))
    for package in (hooklatch, hooklatch_worker)
}
NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
LOOK = """import json, os, sys
found = {{"version": list(sys.version_info[:3])}}
def tell():
    os.write(1, b"\\n" + json.dumps(found).encode())
    os._exit(0)
if sys.version_info < {least!r}:
    tell()
import site, sysconfig
virtual, sees_system = {virtual!r}, {sees_system!r}
def packages(prefix):
    sys.prefix = sys.exec_prefix = prefix
    return [folder for folder in site.getsitepackages([prefix]) if os.path.isdir(folder)]
base = sys.base_prefix
folders = packages(base) if not virtual or sees_system else []
folders = (packages(virtual) if virtual else []) + folders
path, elsewhere = list(sys.path), []
for folder in folders:
    path.append(folder)
    for name in sorted(os.listdir(folder)):
        if name.endswith(".pth"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file]
            lines = [line for line in lines if line and not line.startswith(("#", "import ", "import\\t"))]
            named = [os.path.abspath(os.path.join(folder, line)) for line in lines if "\\0" not in line]
            elsewhere += named  # a worker reads the file again, and what is not there may be then
            path += filter(os.path.exists, named)
found["path"] = list(dict.fromkeys(os.path.abspath(entry) for entry in path))
found["folders"], found["base"], found["soabi"] = folders, base, sysconfig.get_config_var("SOABI") or ""
found["prefix"], found["elsewhere"] = virtual or base, elsewhere
"""
TRY = """{enter}
import json, os, sys
said = ""
try:
    import msgspec
    said = "msgspec " + msgspec.__version__
    from hooklatch_worker.runtime import guardian
    said = ""
except ModuleNotFoundError as error:
    said = "lacks " + str(error.name)
except BaseException as error:
    said = f"{{said}} {{type(error).__name__}}: {{error}}"
os.write(1, b"\\n" + json.dumps(said).encode())
os._exit(0)
"""
Mark = tuple[int, ...]
T = TypeVar("T")


class EnvironmentFaultError(Exception):
    """A source's environment cannot be used, or not yet; the text says why and what to do."""


class InterpreterFacts(msgspec.Struct, frozen=True):
    """What an interpreter says of itself; only the version if that is too old."""

    version: tuple[int, int, int]
    path: list[str] = []
    folders: list[str] = []  # for packages
    elsewhere: list[str] = []  # what .pth files add
    base: str = ""
    prefix: str = ""
    soabi: str = ""


def read_soabi() -> str:
    return str(sysconfig.get_config_var("SOABI") or "")


def stamp_interpreter_file(path: str) -> Mark:
    """Return a value that changes when a file is written, or when a package is added to a directory.

    Raises:
        TimeoutError: its disk is late.
    """
    try:
        return stamp_at(path)
    except TimeoutError:
        raise
    except (OSError, ValueError):
        return ()


@limit_look
def stamp_at(path: str) -> Mark:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, status.st_uid, *stamp_parent_folders(path)


async def examine_interpreter(python: str, *, is_ours: bool = False) -> tuple[Interpreter, dict[str, Mark]]:
    """Return an interpreter, and the marks of the paths whose change means that it is another one.

    Each mark is from before what it is of was looked at: what is written meanwhile is a change.  An interpreter that
    `is_ours` is in a directory of our own that nobody else can enter, so its files are not looked at.

    Raises:
        EnvironmentFaultError: it must not be used, or cannot be.
    """
    marks = await inspect_in_thread(python, list_path_stamps)
    virtual, sees_system = await inspect_in_thread(python, find_virtual_environment)
    looked = await inspect_interpreter(python, virtual, sees_system=sees_system)
    if looked.version[:2] < LEAST:
        least, version = ".".join(map(str, LEAST)), ".".join(map(str, looked.version))
        raise EnvironmentFaultError(f"{python} is Python {version}; hooks need {least} or later")
    marks |= await inspect_in_thread(
        python, lambda _: {folder: stamp_interpreter_file(folder) for folder in looked.folders}
    )
    if not is_ours:
        await inspect_in_thread(python, lambda _: check_all(virtual, looked))
    fits = looked.soabi == read_soabi()
    interpreter = Interpreter(
        python=python, version=".".join(map(str, looked.version)), prefix=looked.prefix, path=looked.path, ours=OURS,
        spares=spare_package_folders() if fits else {}, is_virtual=bool(virtual),
    )  # fmt: skip
    await try_out(interpreter, fits=fits)
    return interpreter, marks


async def inspect_in_thread(python: str, look: Callable[[str], T]) -> T:
    """Return what is found by a function that looks at an interpreter, its packages, or what names it.

    Raises:
        EnvironmentFaultError: that cannot be looked at, or its disk is late.
    """
    own = find_lane(f"interpreter {python}", f"the disk of {python}", LOOK_TIMEOUT)
    try:
        return await trio.to_thread.run_sync(own.look, partial(look, python), abandon_on_cancel=True)
    except FileNotFoundError as error:
        raise EnvironmentFaultError(f"{error.filename} does not exist; make the environment, or fix the path") from None
    except (UnsafeFileError, OSError) as error:
        raise EnvironmentFaultError(describe_error(error)) from None


def list_path_stamps(python: str) -> dict[str, Mark]:
    return {
        path: stamp_interpreter_file(path)
        for path in (python, limit_look(os.path.realpath)(python), find_venv_config(python))
    }


def find_venv_config(python: str) -> str:
    return os.path.join(os.path.dirname(os.path.dirname(python)), "pyvenv.cfg")


def find_virtual_environment(python: str) -> tuple[str, bool]:
    """Return the virtual environment of an interpreter, "" if it is in none, and whether it sees the system's packages.

    Raises:
        UnsafeFileError: somebody else could have written one of these files.
        OSError: one of them does not exist, or cannot be read.
    """
    check_file(python)
    if not os.access(python, os.X_OK):
        raise UnsafeFileError(f"{python} is not a program; name an interpreter, such as .venv/bin/python")
    config = find_venv_config(python)
    if not os.path.lexists(config):
        return "", False
    pairs = [line.partition("=") for line in read_safely(config).decode("utf-8", "replace").splitlines()]
    values = {key.strip().lower(): value.strip().lower() for key, _, value in pairs}
    return os.path.dirname(config), values.get("include-system-site-packages") == "true"


def check_all(virtual: str, looked: InterpreterFacts) -> None:
    """Check everything that workers may import, and that can change.

    Raises:
        UnsafeFileError: somebody else could have written it.
        OSError: who could is unknown.
    """
    for entry in dict.fromkeys([*looked.path, *looked.elsewhere]):
        check_place(entry)
    left = [MOST_ENTRIES]
    # Nothing else of it is run or imported (uv leaves a lock there that all may write), but the checked pyvenv.cfg.
    own = [os.path.join(virtual, "bin")] if virtual else list[str]()
    for folder in dict.fromkeys([*own, *looked.folders, *looked.elsewhere]):
        if os.path.isdir(folder):
            check_below(folder, left)


def check_below(root: str, left: list[int]) -> None:
    own = os.geteuid()
    pending, linked = [root], set[str]()
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                left[0] -= 1
                if left[0] < 0:
                    raise UnsafeFileError(f"{root} holds more than {MOST_ENTRIES} files; it is not looked through")
                status = entry.stat(follow_symlinks=False)
                if status.st_uid not in (0, own):
                    raise UnsafeFileError(
                        f"{entry.path} belongs to user {status.st_uid}; fix it with: chown -R {own} {root}"
                    )
                if entry.is_symlink():
                    check_place(entry.path)
                    target = os.path.realpath(entry.path)
                    if os.path.isdir(target) and target not in linked:
                        linked.add(target)
                        pending.append(target)
                    continue
                if status.st_mode & 0o022:
                    raise UnsafeFileError(f"{entry.path} is writable by others; fix it with: chmod -R go-w {root}")
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def check_place(path: str) -> None:
    """Check what is at a path, after links; where nothing is, who could put something there."""
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as error:
        if error.errno in NOTHING:
            check_above(path)
        elif error.errno != errno.ENAMETOOLONG:  # then nothing can ever be there
            raise
    else:
        (check_folders if is_folder else check_file)(path)


def check_above(path: str) -> None:
    above = os.path.realpath(path)
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    try:
        check_folders(above)
    except UnsafeFileError as error:
        raise UnsafeFileError(f"nothing is at {path}, and others could put a package there: {error}") from None


async def inspect_interpreter(python: str, virtual: str, *, sees_system: bool) -> InterpreterFacts:
    script = LOOK.format(least=LEAST, virtual=virtual, sees_system=sees_system) + "tell()\n"
    answer = await read_last_line(python, script)
    try:
        return msgspec.json.decode(answer, type=InterpreterFacts)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise EnvironmentFaultError(
            f"{python} does not answer like a Python interpreter: {clip_reply(answer)}"
        ) from None


async def try_out(interpreter: Interpreter, *, fits: bool) -> None:
    """Import there what a zygote imports.

    Raises:
        EnvironmentFaultError: that fails; the text says what to install.
    """
    answer = await read_last_line(interpreter.python, TRY.format(enter=interpreter.enter))
    try:
        said = msgspec.json.decode(answer, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = clip_reply(answer)
    if not said:
        return
    wanted = f"msgspec>={minimum_msgspec()}"
    python = interpreter.python
    way = f'install it: {python} -m pip install "{wanted}" (or: uv pip install --python {python} "{wanted}")'
    if said == "lacks msgspec" and not fits:
        said = f"Python {interpreter.version} there cannot load the daemon's own msgspec, and has none; {way}"
    elif said.startswith("msgspec "):
        said = f"its {said}; {way}"
    raise EnvironmentFaultError(f"{interpreter.python} cannot run hooks: {said}")


async def read_last_line(python: str, script: str) -> bytes:
    try:
        ended = await run_program(
            isolated_command(python, "-S", "-c", script), OWN.of(os.environ), folder="/", timeout=LOOK_TIMEOUT
        )
    except OSError as error:
        raise EnvironmentFaultError(f"{python} cannot be run: {error.strerror}") from None
    if ended.code != 0:
        how = f"ended with code {ended.code}" if ended.code is not None else f"gave no answer in {LOOK_TIMEOUT:.0f} s"
        raise EnvironmentFaultError(f"{python} is no Python that runs: it {how}: {ended.last(1)[:200]}")
    return ended.output.rpartition(b"\n")[2]


def clip_reply(answer: bytes) -> str:
    return repr(answer[:200].decode("utf-8", "replace"))


def spare_package_folders() -> dict[str, str]:
    """Return the folders of the packages that ours need, in the daemon's own environment."""
    from importlib.util import find_spec

    found: dict[str, str] = {}
    for name in SPARES:
        spec = find_spec(name)
        if spec is not None and spec.origin:
            found[name] = os.path.dirname(os.path.dirname(os.path.abspath(spec.origin)))
    return found


def minimum_msgspec() -> str:
    return importlib.metadata.version("msgspec")
