"""The C form of the forwarder in the user's state directory: from the wheel, or from a compiler where one is.

    the wheel's program, or entry.c + refusals.h ─▶ cc ─▶ paths written ─▶ checked ─▶ STATE/entries/entry-DIGEST

It is not started where the wheel has it: when that environment is gone, the program still refuses.  The digest covers
everything that goes into it, so it is never stale.  Older ones stay, since installed commands name their path.  A
program that does not answer as the Python form does is removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from hooklatch import paths
from hooklatch.entry import header, refusals
from hooklatch.entry.header import SOURCE
from hooklatch.files import create_anew
from hooklatch_worker.sandbox import children

__all__ = [
    "BuildError",
    "build_program",
    "compile_entry",
    "entries_folder",
    "program_path",
    "read_shipped",
    "write_paths",
]

SHIPPED = Path(__file__).with_name("entry")  # in a wheel for one kind of machine; packaging/native_entry.py
STARTING = Path(__file__).resolve().with_name("starting.py")
COMPILERS = ("cc", "gcc", "clang")
TIMEOUT = 60.0  # seconds for a compiler, and for the program that it builds


class BuildError(Exception):
    """The C form cannot be built here; the text says why."""


def build_program(folder: str | os.PathLike[str] | None = None, *, dry_run: bool = False) -> Path:
    """Return the program, and make it unless it is there; `folder` is by default in the user's state directory.

    A dry run makes nothing, so it does not notice a compiler that fails.

    Raises:
        BuildError: this installation has neither a program nor a compiler, or what they give cannot be used.
    """
    try:
        shipped = read_shipped()
        path = program_path(folder, shipped)
        if dry_run:
            if shipped is None and not path.is_file():
                find_compiler()
            return path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=path.parent) as place:
            if not path.exists() or not is_usable(path, Path(place)):
                make_program(path, shipped, Path(place))
    except OSError as error:
        raise BuildError(f"{error.filename or 'the program'}: {error.strerror or error}") from None
    return path


def read_shipped() -> bytes | None:
    """Return the program that a wheel for this kind of machine brings; None where there is none."""
    try:
        return SHIPPED.read_bytes()
    except FileNotFoundError:
        return None


def entries_folder() -> Path:
    """Return the folder of the user's programs; it need not exist."""
    return Path(paths.state_dir(os.environ), "entries").absolute()


def program_path(folder: str | os.PathLike[str] | None = None, shipped: bytes | None = None) -> Path:
    """Return the path that the program has or would have.

    Raises:
        OSError: what it would be made of cannot be read.
    """
    source = SOURCE.read_bytes() + header.make_header().encode() if shipped is None else shipped
    digest = hashlib.sha256(b"\0".join((source, *installed_paths()))).hexdigest()[:16]
    return (entries_folder() if folder is None else Path(folder).absolute()) / f"entry-{digest}"


def installed_paths() -> tuple[bytes, bytes]:
    """Return the interpreter, and the script with which it starts a daemon."""
    return os.fsencode(sys.executable), os.fsencode(STARTING)


def is_usable(path: Path, folder: Path) -> bool:
    """Return whether the program does its work: what a crash or a disk has left of it would refuse nothing."""
    try:
        probe_program(path, folder)
    except BuildError:
        return False
    return True


def make_program(path: Path, shipped: bytes | None, folder: Path) -> None:
    """Make the program, check it, and only then give it its name, so that no host starts half a program."""
    program = folder / "entry"
    if shipped is None:
        try:
            compile_entry(program, "-static")
        except BuildError:
            compile_entry(program)  # the C library may be installed only as a shared one
        shipped = program.read_bytes()
    with open(create_anew(str(program)), "wb") as file:
        file.write(write_paths(shipped))
        file.flush()
        os.fsync(file.fileno())
    program.chmod(0o700)
    probe_program(program, folder)
    program.replace(path)


def write_paths(program: bytes) -> bytes:
    """Return the program with the paths of this installation behind its mark.

    Raises:
        BuildError: it has no single mark, or a path is too long.
    """
    before, *after = program.split(header.MARK.encode() + b"\0")
    room = [path.ljust(header.MAX_PATH, b"\0") for path in installed_paths()]
    if len(after) != 1 or any(len(path) != header.MAX_PATH or not path.endswith(b"\0") for path in room):
        raise BuildError("the program that was built has no room for the paths of this installation")
    places = b"".join(room)
    return b"".join((before, header.MARK.encode(), b"\0", places, after[0][len(places) :]))


def compile_entry(program: Path, *flags: str) -> None:
    """Compile with the first compiler that is found.

    Raises:
        BuildError: there is none, or it fails; the text has the end of its output.
    """
    compiler = find_compiler()
    program.with_name("refusals.h").write_text(header.make_header())
    command = [compiler, *header.FLAGS, *flags, "-I", str(program.parent), "-o", str(program), str(SOURCE)]
    try:
        completed = children.run_child(command, children.COMPILER.of(os.environ), timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{compiler} cannot be run: {getattr(error, 'strerror', None) or error}") from None
    if completed.returncode != 0:
        raise BuildError(f"{compiler} failed: {completed.stderr.decode(errors='replace').strip()[-2000:]}")


def find_compiler() -> str:
    """Return the first compiler that is found.

    Raises:
        BuildError: there is none.
    """
    path = children.filter_absolute_path(os.environ.get("PATH", os.defpath))
    compiler = next((found for name in COMPILERS if (found := shutil.which(name, path=path)) is not None), None)
    if compiler is None:
        raise BuildError(f"there is no C compiler ({', '.join(COMPILERS)}) on the PATH")
    return compiler


def probe_program(program: Path, folder: Path) -> None:
    """Check that a program refuses, and that it passes an answer on.

    Raises:
        BuildError: it does not, as a program for another machine or libc would not.
    """
    words = ["codex", "PermissionRequest", "--kind", "gate", "--wait", "60", "--runtime-dir", str(folder)]
    refusal = refusals.make_failure_output(
        "", "", "gate", "usage", b"expected HOST EVENT --kind gate|context|notify --wait SECONDS"
    )
    document = b'{"a":"b"}\n'
    answer = b'{"jsonrpc":"2.0","id":1,"result":{"exit_code":0,"stdout":"{\\"a\\":\\"b\\"}\\n","stderr":""}}\n'
    with socket.socket(socket.AF_UNIX) as listener:
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # The path itself may be too long; where there is no /proc it must do.
            near = f"/proc/{os.getpid()}/fd/{folder_fd}" if os.path.isdir("/proc/self/fd") else os.fspath(folder)
            listener.bind(f"{near}/{paths.AGENT_SOCKET}")
            listener.listen()
            listener.settimeout(TIMEOUT)
            daemon = threading.Thread(target=answer_once, args=(listener, answer), daemon=True)
            daemon.start()
            words[-1] = near
            if run_built_program(program, []) != refusal or run_built_program(program, words) != (0, document, b""):
                raise BuildError("the program that was built does not answer as it should")
            daemon.join(TIMEOUT)
        finally:
            (folder / paths.AGENT_SOCKET).unlink(missing_ok=True)  # a second program may be tried here
            os.close(folder_fd)


def answer_once(listener: socket.socket, answer: bytes) -> None:
    try:
        connection, _ = listener.accept()
    except OSError:
        return  # the program never connected: its exit and output, which are checked, show why
    with connection, connection.makefile("rb") as lines:
        lines.readline()
        connection.sendall(answer)


def run_built_program(program: Path, words: list[str]) -> tuple[int, bytes, bytes]:
    try:
        completed = children.run_child([str(program), *words], {}, stdin=b"{}", timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"the program that was built cannot be run: {getattr(error, 'strerror', None) or error}"
        ) from None
    return completed.returncode, completed.stdout, completed.stderr
