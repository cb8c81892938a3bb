"""The build of the C form of the forwarder, where a compiler is, and its path.

    entry.c + refusals.h (from refusals.py) ─▶ cc ─▶ checked ─▶ STATE/entries/entry-DIGEST

The digest covers everything that goes into a build, so a build is never stale.  Older builds stay, since installed
commands name their path.  A program that does not answer as the Python form does is removed.
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
from collections.abc import Iterable
from pathlib import Path

from hooklatch import paths
from hooklatch.entry import refusals
from hooklatch_worker.sandbox import children

__all__ = ["BuildError", "build_program", "find_or_build_program", "compile_entry", "make_header", "program_path"]

SOURCE = Path(__file__).with_name("entry.c")
STARTING = Path(__file__).resolve().with_name("starting.py")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
TIMEOUT = 60.0  # seconds for a compiler, and for the program that it builds


class BuildError(Exception):
    """The C form cannot be built here; the text says why."""


def build_program(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the program, and build it unless it is there; `folder` is by default in the user's state directory.

    Raises:
        BuildError: there is no compiler, or the program that it builds cannot be used.
    """
    path = program_path(folder)
    if not path.is_file():
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            compile_program(path)
        except OSError as error:
            raise BuildError(f"{error.filename or path}: {error.strerror}") from None
    return path


def find_or_build_program(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the program, None if it cannot be built."""
    try:
        return build_program(folder)
    except BuildError:
        return None


def program_path(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the path that the program has or would have."""
    digest = hashlib.sha256(SOURCE.read_bytes() + make_header().encode()).hexdigest()[:16]
    base = Path(folder) if folder is not None else Path(paths.state_dir(os.environ), "entries")
    return base.absolute() / f"entry-{digest}"


def compile_program(path: Path) -> None:
    """Compile the program, check it, and only then give it its name, so that no host starts half a program."""
    with tempfile.TemporaryDirectory(prefix=".build-", dir=path.parent) as folder:
        program = Path(folder, "entry")
        try:
            compile_entry(program, "-static")
        except BuildError:
            compile_entry(program)  # the C library may be installed only as a shared one
        probe_program(program, Path(folder))
        program.chmod(0o700)
        program.replace(path)


def compile_entry(program: Path, *flags: str) -> None:
    """Compile with the first compiler that is found.

    Raises:
        BuildError: there is none, or it fails; the text has the end of its output.
    """
    path = children.filter_absolute_path(os.environ.get("PATH", os.defpath))
    compiler = next((found for name in COMPILERS if (found := shutil.which(name, path=path)) is not None), None)
    if compiler is None:
        raise BuildError(f"there is no C compiler ({', '.join(COMPILERS)}) on the PATH; install one")
    program.with_name("refusals.h").write_text(make_header())
    command = [compiler, *FLAGS, *flags, "-I", str(program.parent), "-o", str(program), str(SOURCE)]
    try:
        completed = children.run_child(command, children.COMPILER.of(os.environ), timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{compiler} cannot be run: {getattr(error, 'strerror', None) or error}") from None
    if completed.returncode != 0:
        raise BuildError(f"{compiler} failed: {completed.stderr.decode(errors='replace').strip()[-2000:]}")


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
            listener.bind(f"/proc/self/fd/{folder_fd}/{paths.AGENT_SOCKET}")  # the path itself may be too long
            listener.listen()
            listener.settimeout(TIMEOUT)
            daemon = threading.Thread(target=answer_once, args=(listener, answer), daemon=True)
            daemon.start()
            words[-1] = f"/proc/{os.getpid()}/fd/{folder_fd}"
            if run_built_program(program, []) != refusal or run_built_program(program, words) != (0, document, b""):
                raise BuildError("the program that was built does not answer as it should")
            daemon.join(TIMEOUT)
        finally:
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


# -- the header ----------------------------------------------------------------------------------------------------


def make_header() -> str:
    """Return refusals.h: the data of refusals.py, and the paths for the command line that starts a daemon."""
    numbers = {
        name: getattr(refusals, name) for name in ("BLOCK", "CHUNK", "MAX_FRAME", "NOTICE", "PATH_LIMIT", "SILENCE")
    }
    texts = {
        "AGENT_SOCKET": paths.AGENT_SOCKET, "BEFORE": refusals.BEFORE, "POINTER": paths.POINTER,
        "PYTHON": sys.executable, "REFUSED": refusals.REFUSED, "STARTING": str(STARTING),
    }  # fmt: skip
    forms = [f"    {{{', '.join(map(format_c_string, (*key, *form)))}}}," for key, form in refusals.FORMS.items()]
    silences = [
        f"    {{{format_c_string(host)}, {format_c_string(text)}}}," for host, text in refusals.SILENCES.items()
    ]
    return "\n".join([
        "/* Generated by building.py from refusals.py. */",
        "#define COUNT(array) (sizeof(array) / sizeof *(array))",
        *(f"#define {name} {value}" for name, value in numbers.items()),
        *(f"#define {name} {format_c_string(text)}" for name, text in texts.items()),
        "enum why {", *(f"    WHY_{why.upper()}," for why in refusals.WORDS), "};",
        *format_c_array("words", refusals.WORDS.values()),
        *format_c_array("variables", refusals.VARIABLES), *format_c_array("handed", refusals.HANDED),
        *format_c_array("handed_prefixes", refusals.HANDED_PREFIXES),
        "static const struct { const char *host, *event, *before, *after; } forms[] = {", *forms, "};",
        "static const struct { const char *host, *said; } silences[] = {", *silences, "};",
        *format_c_array("documented", refusals.DOCUMENTED), "",
    ])  # fmt: skip


def format_c_array(name: str, texts: Iterable[str]) -> list[str]:
    return [f"static const char *const {name}[] = {{", *(f"    {format_c_string(text)}," for text in texts), "};"]


def format_c_string(text: str) -> str:
    """Return a C string.  Its escapes are octal: they have at most three digits, while hexadecimal ones have no end."""
    plain = [chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in os.fsencode(text)]
    return f'"{"".join(plain)}"'
