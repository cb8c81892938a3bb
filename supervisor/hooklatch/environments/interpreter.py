"""The inspection of an interpreter: who could have written it, which Python it is, and what it imports from where.

A user who can write to an interpreter or its packages decides what guards do.  So the rule for files of hooks applies
to all of it.  The inspection runs the interpreter without `site`, so no code of its packages runs.

An interpreter or environment that cannot be used raises EnvironmentFaultError, with what to do.

The runner of such scripts, and of installers, is for programs that end by themselves.  A program dies with this
process, and when its caller stops waiting.  Its output goes to a file in memory: a pipe that is read too slowly would
block it.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import signal
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
import trio

import hooklatch
import hooklatch_worker
from hooklatch.disks import find_lane, limit_look
from hooklatch.errors import describe_error
from hooklatch.processes.environment_slot import EnvironmentFaultError
from hooklatch.processes.guardian import OWNED, Interpreter
from hooklatch.threads import in_thread
from hooklatch_worker.sandbox import children
from hooklatch_worker.sandbox.children import OWN, isolated_command
from hooklatch_worker.sandbox.safety import (
    UnsafeFileError,
    check_file,
    check_folders,
    read_safely,
    stamp_parent_folders,
)
from hooklatch_worker.systems import system

__all__ = [
    "CommandExit", "ProgramOutput", "run_program", "OURS", "SPARES", "Mark", "examine_interpreter",
    "inspect_in_thread", "stamp_interpreter_file", "read_last_line", "read_soabi", "take_last_lines",
]  # fmt: skip

# The code of a process between the daemon and the program: it outlives neither of them, and kills all processes that
# the program started.  It ends a program that prints without end, where the file of the output has no fixed size.
KEEPER = """import os, select, signal, sys, time
sys.path[:] = {path}
from hooklatch_worker.sandbox import children
from hooklatch_worker.systems import system
daemon, code = system.watch_process({daemon}), 1
if os.getppid() != {daemon}:
    os._exit(1)
system.become_subreaper()
system.wake_when_orphaned()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
try:
    program = children.start_child(sys.argv[1:], os.environ)
    poll = select.poll()
    for fd in daemon, system.watch_process(program.pid):
        poll.register(fd, select.POLLIN)
    pause = None if os.fstat(1).st_size == {most} else {pause}
    while not poll.poll(pause) and max(os.fstat(0).st_size, os.fstat(1).st_size) <= {most}:
        pass
    code = program.poll()
    code = 1 if code is None else code if code >= 0 else 128 - code
except OSError as error:
    code = 127
    os.write(2, f"{{sys.argv[1]}}: {{error.strerror}}".encode())
finally:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while system.kill_children():
        time.sleep(0.001)
    os._exit(code)
"""
MAX_OUTPUT = 2**20  # bytes at the end of the output that are read
MAX_WRITTEN = 64 * 2**20  # bytes that it may write, all of them in memory: to write more is an error, or its end
PAUSE = 100  # milliseconds between two looks at how much it has written, where it can write more
END_TIMEOUT = 2.0  # seconds that the keeper has for killing the remaining processes


class CommandExit(msgspec.Struct, frozen=True):
    """The exit code of a program, None if it took too long, and its output."""

    code: int | None
    output: bytes

    def last_lines(self, count: int) -> str:
        return take_last_lines(self.output, count)


def take_last_lines(output: bytes, count: int) -> str:
    """Return the last lines of a program's output that are not empty."""
    text = output.decode("utf-8", "replace")
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-count:])


class ProgramOutput:
    """The output of a program that runs."""

    def __init__(self) -> None:
        self.fd = -1

    def output(self) -> bytes:
        """Return the output so far, only its end if it is long."""
        if self.fd < 0:
            return b""
        size = os.lseek(self.fd, 0, os.SEEK_CUR)  # the program writes by the same open file
        start = max(0, size - MAX_OUTPUT)
        return os.pread(self.fd, size - start, start)


async def run_program(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    folder: str,
    timeout: float,
    output: ProgramOutput | None = None,
    stdin: bytes = b"",
) -> CommandExit:
    """Run a program to its end; kill it, and all that it started, after `timeout` seconds, or when cancelled.

    A name without a slash is looked up in the PATH of `environ`; of a program that is not there the exit code is 127.

    Raises:
        OSError: it cannot be started.
    """
    output = output or ProgramOutput()
    # Of a fixed size: without that, a program that prints without end takes the machine's memory.
    output.fd = system.make_bounded_file("output", MAX_WRITTEN)
    try:
        source = system.make_bounded_file("input", len(stdin))
        try:
            os.pwrite(source, stdin, 0)
            process = children.start_child(
                [*keeper_command(), *command], environ, cwd=folder, stdin=source, stdout=output.fd,
                stderr=output.fd, start_new_session=True, umask=0o077,
            )  # fmt: skip
        finally:
            os.close(source)
        OWNED.add(process.pid)  # without a checkpoint since its start: a sweep would take it for a stray process
        try:
            code = await wait_for_program(process, timeout)
        finally:
            OWNED.discard(process.pid)
        return CommandExit(code, output.output())
    finally:
        os.close(output.fd)
        output.fd = -1


def keeper_command() -> list[str]:
    path = [os.fspath(entry) or os.getcwd() for entry in sys.path]
    code = KEEPER.format(path=path, daemon=os.getpid(), most=MAX_WRITTEN, pause=PAUSE)
    return children.isolated_command(sys.executable, "-S", "-c", code)


async def wait_for_program(process: subprocess.Popen[bytes], timeout: float) -> int | None:
    handle = system.watch_process(process.pid)
    has_ended = False
    try:
        with trio.move_on_after(timeout):
            await trio.lowlevel.wait_readable(handle)
            has_ended = True
    finally:
        # Shielded: a caller that is cancelled must not leave the program or its children running.
        with trio.CancelScope(shield=True):
            if not has_ended:
                process.terminate()
                with trio.move_on_after(END_TIMEOUT):
                    await trio.lowlevel.wait_readable(handle)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the group lives until it is reaped
            await trio.lowlevel.wait_readable(handle)
        os.close(handle)
        process.wait()
    return process.returncode if has_ended else None


MINIMUM_VERSION = (3, 11)
LOOK_TIMEOUT = 20.0  # seconds; enough for a cold start on a busy machine
MAX_FILES = 200_000  # files below an environment; a folder with more is not an environment
SPARES = ("msgspec",)  # the packages that ours need; compiled, so they load only with the same ABI
OURS = {
    package.__name__: os.path.dirname(os.path.dirname(os.path.abspath(package.__file__ or "")))
    for package in (hooklatch, hooklatch_worker)
}
ABSENT_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
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


class InterpreterFacts(msgspec.Struct, frozen=True):
    """The facts that an interpreter prints of itself; only the version if that is too old."""

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
    """Return an interpreter, and the marks of the paths whose change makes it another one.

    Each mark is taken before its path is inspected, so a write during the inspection counts as a change.  An
    interpreter that `is_ours` is in a directory of our own that no other user can enter, so its files are not checked.
    """
    marks = await inspect_in_thread(python, list_path_stamps)
    virtual, sees_system = await inspect_in_thread(python, find_virtual_environment)
    facts = await inspect_interpreter(python, virtual, sees_system=sees_system)
    if facts.version[:2] < MINIMUM_VERSION:
        minimum, version = ".".join(map(str, MINIMUM_VERSION)), ".".join(map(str, facts.version))
        raise EnvironmentFaultError(f"{python} is Python {version}; hooks need {minimum} or later")
    marks |= await inspect_in_thread(
        python, lambda _: {folder: stamp_interpreter_file(folder) for folder in facts.folders}
    )
    if not is_ours:
        await inspect_in_thread(python, lambda _: check_all(virtual, facts))
    fits = facts.soabi == read_soabi()
    interpreter = Interpreter(
        python=python, version=".".join(map(str, facts.version)), prefix=facts.prefix, path=facts.path, ours=OURS,
        spares=spare_package_folders() if fits else {}, is_virtual=bool(virtual),
    )  # fmt: skip
    await try_out(interpreter, fits=fits)
    return interpreter, marks


async def inspect_in_thread(python: str, look: Callable[[str], T]) -> T:
    """Return the result of a function that looks at an interpreter, its packages, or a link to it."""
    lane = find_lane(f"interpreter {python}", f"the disk of {python}", LOOK_TIMEOUT)
    try:
        return await in_thread(lane.look, partial(look, python), abandon_on_cancel=True)
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
        UnsafeFileError: another user could have written one of these files.
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


def check_all(virtual: str, facts: InterpreterFacts) -> None:
    """Check everything that workers may import, and that can change.

    Raises:
        UnsafeFileError: another user could have written it.
        OSError: its owner or mode cannot be read.
    """
    for entry in dict.fromkeys([*facts.path, *facts.elsewhere]):
        check_place(entry)
    budget = [MAX_FILES]
    # Of the rest of the environment, only pyvenv.cfg is read, which is checked already.  Not the whole of it: uv leaves
    # a lock there that all may write.
    own = [os.path.join(virtual, "bin")] if virtual else list[str]()
    for folder in dict.fromkeys([*own, *facts.folders, *facts.elsewhere]):
        if os.path.isdir(folder):
            check_below(folder, budget)


def check_below(root: str, budget: list[int]) -> None:
    own = os.geteuid()
    pending, linked = [root], set[str]()
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                budget[0] -= 1
                if budget[0] < 0:
                    raise UnsafeFileError(
                        f"{root} holds more than {MAX_FILES} files, too many to check; name an environment of its own"
                    )
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
    """Check the file or folder at a path, after links.  If it is absent, check who could put something there."""
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as error:
        if error.errno in ABSENT_ERRORS:
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
    script = LOOK.format(least=MINIMUM_VERSION, virtual=virtual, sees_system=sees_system) + "tell()\n"
    answer = await read_last_line(python, script)
    try:
        return msgspec.json.decode(answer, type=InterpreterFacts)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise EnvironmentFaultError(
            f"{python} does not answer like a Python interpreter: {clip_reply(answer)}"
        ) from None


async def try_out(interpreter: Interpreter, *, fits: bool) -> None:
    """Have an interpreter import what a zygote imports."""
    answer = await read_last_line(interpreter.python, TRY.format(enter=interpreter.enter))
    try:
        problem = msgspec.json.decode(answer, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = clip_reply(answer)
    if not problem:
        return
    requirement = f"msgspec>={importlib.metadata.version('msgspec')}"
    python = interpreter.python
    remedy = (
        f'install it: {python} -m pip install "{requirement}" (or: uv pip install --python {python} "{requirement}")'
    )
    if problem == "lacks msgspec" and not fits:
        problem = f"Python {interpreter.version} there cannot load the daemon's own msgspec, and has none; {remedy}"
    elif problem.startswith("msgspec "):
        problem = f"its {problem}; {remedy}"
    raise EnvironmentFaultError(f"{interpreter.python} cannot run hooks: {problem}")


async def read_last_line(python: str, script: str) -> bytes:
    """Run a script in an interpreter, and return the last line of its output."""
    try:
        command_exit = await run_program(
            isolated_command(python, "-S", "-c", script), OWN.of(os.environ), folder="/", timeout=LOOK_TIMEOUT
        )
    except OSError as error:
        raise EnvironmentFaultError(f"{python} cannot be run: {error.strerror}") from None
    if command_exit.code != 0:
        took_long = command_exit.code is None
        ending = f"gave no answer in {LOOK_TIMEOUT:.0f} s" if took_long else f"ended with code {command_exit.code}"
        raise EnvironmentFaultError(
            f"{python} is not a Python that runs: it {ending}: {command_exit.last_lines(1)[:200]}"
        )
    return command_exit.output.rpartition(b"\n")[2]


def clip_reply(answer: bytes) -> str:
    return repr(answer[:200].decode("utf-8", "replace"))


def spare_package_folders() -> dict[str, str]:
    """Return the folders of the packages that ours need, in the daemon's own environment."""
    from importlib.util import find_spec

    folders: dict[str, str] = {}
    for name in SPARES:
        spec = find_spec(name)
        if spec is not None and spec.origin:
            folders[name] = os.path.dirname(os.path.dirname(os.path.abspath(spec.origin)))
    return folders
