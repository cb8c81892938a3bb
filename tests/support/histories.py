"""Histories of what processes saw, each written by its own: lines of JSON in files, which a kill leaves whole."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

__all__ = ["Pen", "now", "read_lines"]

ENCODER = msgspec.json.Encoder()
Line = TypeVar("Line")


def now() -> int:
    return time.monotonic_ns()


class Pen:
    """Writes one process's history."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, line: msgspec.Struct) -> None:
        os.write(self._fd, ENCODER.encode(line) + b"\n")

    def close(self) -> None:
        os.close(self._fd)


def read_lines(paths: Iterable[Path], decoder: msgspec.json.Decoder[Line]) -> Iterator[Line]:
    """Yield all lines of these files; a last line that was torn is left out."""
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield decoder.decode(line)
