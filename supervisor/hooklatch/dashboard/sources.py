"""The files of a hook, as they are now, compared with what the daemon has loaded.  Reads files; runs none.

Only files that the daemon names are read. A request names a hook, and never a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from hooklatch.files import open_regular_file

__all__ = ["SourceFile", "read_source", "read_sources"]

MAX_BYTES = 256 * 1024
MAX_FILES = 20


class SourceFile(msgspec.Struct, frozen=True):
    """A file: its lines, the line at which a hook begins, and its state.

    `state` is `loaded` (the daemon runs this version), `changed` (it runs another one), or the reason why it cannot be
    read.
    """

    path: str
    state: str
    lines: list[str] = []
    begins_at: int = 0
    is_cut: bool = False


def read_sources(digests: Mapping[str, str], origin: str | None) -> list[SourceFile]:
    """Read the files of a hook. `origin` is the `file:line` of its declaration, as far as that is known."""
    return [read_source(path, digest, origin) for path, digest in list(digests.items())[:MAX_FILES]]


def read_source(path: str, digest: str, origin: str | None) -> SourceFile:
    """Read one file, and compare it with the digest of the version that the daemon has loaded."""
    try:
        with open_regular_file(path) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        return SourceFile(path, f"it cannot be read: {getattr(error, 'strerror', None) or error}")
    if len(data) > MAX_BYTES:
        text = data[:MAX_BYTES].decode(errors="replace")
        return SourceFile(path, "it is too long to compare; this is its beginning", text.split("\n"), is_cut=True)
    state = "loaded" if sha256(data).hexdigest() == digest else "changed"
    return SourceFile(path, state, data.decode(errors="replace").split("\n"), find_origin_line(path, origin))


def find_origin_line(path: str, origin: str | None) -> int:
    """Return the line of an origin in this file, or 0 if it names none there."""
    place, _, line = (origin or "").rpartition(":")
    return int(line) if place == path and line.isdecimal() and len(line) < 8 else 0
