"""The caller's end of the sandbox: builds it, starts it as nobody, hands texts over as bytes on a pipe.

What happens to a text, and what is asserted before, stands in `sandbox.c` and `text.c`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

__all__ = [
    "NOBODY",
    "CUT",
    "Built",
    "Lacking",
    "Ran",
    "Refused",
    "Sandbox",
    "built",
    "held",
    "lacking",
    "NOTHING_LESS",
    "SHELLS",
]

HERE = Path(__file__).parent
NOBODY = 65534
SHELLS = ("bash", "posix", "dash")  # as the kinds of sandbox.h; posix: bash --posix, where sh is bash
NEEDED = ("bash", "dash", "setpriv", "ldd", "cc")
# How it is started.  What is weaker is refused by the sandbox itself, which tests show.
NOTHING_LESS = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--no-new-privs",
)  # fmt: skip
MAX_TEXT = 100_000  # bytes, as in sandbox.h
MAX_RECORD = 4096  # as in stub.c
CUT = b"\0"  # stands for the words that a record has no place for; no word has one
WARNINGS = ("-std=c11", "-O2", "-static", "-Wall", "-Wextra", "-Wconversion", "-Werror")


class Refused(Exception):
    """The sandbox is not what it has to be, so no text ran."""


class Lacking(Exception):
    """This machine does not give what the sandbox needs."""


class Built(NamedTuple):
    """Descriptors of the compiled programs: nobody may be unable to reach their folder."""

    sandbox: int
    stub: int


class Ran(NamedTuple):
    """What a text ran: the words of each program; `status` is None if its shell was stopped."""

    words: list[list[bytes]]
    status: int | None


def lacking() -> str | None:
    """Return why texts cannot be run here; None if they can, as far as that shows without trying."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        return f"not on this machine: {', '.join(missing)}"
    if os.geteuid() != 0:
        return "the sandbox belongs to nobody, whom only root can become"
    return None


@contextlib.contextmanager
def built(*, weaker: bool = False) -> Iterator[Built]:
    """Compile the sandbox and the stub; a weaker one can leave a step out (sandbox.h), for tests of its assertions."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder, contextlib.ExitStack() as stack:
        opened: list[int] = []
        for name, sources in (("sandbox", ("sandbox.c", "text.c")), ("stub", ("stub.c",))):
            path = os.path.join(folder, name)
            command = [
                "cc",
                *WARNINGS,
                *(["-DWEAKER"] if weaker else []),
                "-o",
                path,
                *(str(HERE / one) for one in sources),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Lacking(f"cc cannot build {name}: {done.stderr.strip()[-500:]}")
            os.chmod(path, 0o755)
            opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            stack.callback(os.close, opened[-1])
        yield Built(*opened)


def held() -> list[str]:
    """Return the files of the sandbox's /bin, as NAME=PATH: the shells, and what their loader needs."""
    found: dict[str, str] = {}
    for name in ("bash", "dash"):
        path = shutil.which(name) or name
        found[name] = os.path.realpath(path)
        listed = subprocess.run(["ldd", found[name]], capture_output=True, text=True, check=False).stdout.split()
        found |= {os.path.basename(library): library for library in listed if library.startswith("/")}
    return [f"{name}={path}" for name, path in found.items()]


class Sandbox:
    """A running sandbox.  Texts run one after another, in a root of its own each."""

    def __init__(self, programs: Built, *, begin: Sequence[str] = NOTHING_LESS, without: int = 0) -> None:
        self._process = subprocess.Popen(
            [*begin, f"/proc/self/fd/{programs.sandbox}", f"stub=/proc/self/fd/{programs.stub}", *held()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            pass_fds=programs, cwd="/", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "WITHOUT": str(without)},
        )  # fmt: skip
        assert self._process.stdin
        assert self._process.stdout
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, shell: str, text: bytes) -> Ran:
        """Return what a shell runs of a text.

        Raises:
            Refused: something is not as it has to be, so it did not run.
            Lacking: the machine does not give what is needed.
        """
        if b"\0" in text or len(text) > MAX_TEXT:
            raise ValueError("no argument can hold this text")
        try:
            self._requests.write(struct.pack("=II", len(text), SHELLS.index(shell)) + text)
            self._requests.flush()
        except BrokenPipeError:
            raise self._ended() from None
        head = self._answers.read(12)
        if len(head) < 12:
            raise self._ended()
        has_ended, status, size = struct.unpack("=iii", head)
        return Ran(list(records(self._answers.read(size))), status if has_ended else None)

    def _ended(self) -> Exception:
        status, reason = self.close()
        text = reason or f"it ended with {status}"
        return Lacking(text) if status == 99 and "this machine" in text else Refused(text)

    def close(self) -> tuple[int, str]:
        """End it; return its exit status, and what it said."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        said = b""
        if self._process.stderr and not self._process.stderr.closed:
            said = self._process.stderr.read()
            self._process.stderr.close()
        self._answers.close()
        return self._process.wait(), said.decode("utf-8", "replace").strip()


def records(log: bytes) -> Iterator[list[bytes]]:
    """Yield the words that stubs noted; a text may write there itself, so what is no record ends it."""
    at = 0
    while at + 8 <= len(log):
        size, count = struct.unpack_from("=II", log, at)
        body = log[at + 8 : at + size]
        if not 8 < size <= MAX_RECORD or len(body) != size - 8 or not body.endswith(b"\0"):
            return
        words, is_cut = body[:-1].split(b"\0"), bool(count >> 31)
        if not is_cut and len(words) != count:
            return
        yield [*words, CUT] if is_cut else words
        at += size
