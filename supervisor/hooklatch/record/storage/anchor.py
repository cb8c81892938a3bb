"""The anchor: a file beside the segments that names the newest entry on disk.

A chain that was truncated is still a valid chain.  The anchor reveals the truncation, up to the last sync.
"""

from __future__ import annotations

import os
import re

from hooklatch.record.storage.slots import SlotFile, read_form

__all__ = ["Anchor", "anchor_path", "read_anchor"]

FORM = re.compile(rb"(\d{18}) ([0-9a-f]{64})")


def anchor_path(folder: str) -> str:
    return os.path.join(folder, "anchor")


def read_anchor(folder: str) -> tuple[int, str] | None:
    """Return the sequence number and hash in the anchor; None if there is no anchor.

    Raises:
        SlotError: the file is unreadable or holds something else.
    """
    match = read_form(anchor_path(folder), FORM, "an anchor")
    return (int(match[1]), match[2].decode()) if match is not None else None


class Anchor(SlotFile):
    """The anchor of a record that is open for writing.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, folder: str, seq: int, own: str) -> None:
        super().__init__(anchor_path(folder), encode_anchor(seq, own))

    def advance(self, seq: int, own: str) -> None:
        """Set the anchor and sync it.

        Raises:
            OSError: it could not be written.
        """
        self.write(encode_anchor(seq, own))
        os.fdatasync(self.fd)


def encode_anchor(seq: int, own: str) -> bytes:
    return b"%018d %b" % (seq, own.encode())
