"""The anchor: names the newest record on disk, in a file beside the segments.  Knows that one file.

A chain that was truncated is still a valid chain.  The anchor reveals the truncation, up to the last sync.
"""

from __future__ import annotations

import os
import re

from hooklatch.record.files.slots import Slot, read_form

__all__ = ["Anchor", "path_of_anchor", "read_anchor"]

FORM = re.compile(rb"(\d{18}) ([0-9a-f]{64})")


def path_of_anchor(folder: str) -> str:
    return os.path.join(folder, "anchor")


def read_anchor(folder: str) -> tuple[int, str] | None:
    """Return the sequence number and hash in the anchor; None if there is no anchor.

    Raises:
        SlotError: the file is unreadable or holds something else.
    """
    match = read_form(path_of_anchor(folder), FORM, "an anchor")
    return (int(match[1]), match[2].decode()) if match is not None else None


class Anchor(Slot):
    """The anchor of a record that is open for writing.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, folder: str, seq: int, own: str) -> None:
        super().__init__(path_of_anchor(folder), spelled(seq, own))

    def advance(self, seq: int, own: str) -> None:
        """Set the anchor and sync it.

        Raises:
            OSError: it could not be written.
        """
        self.write(spelled(seq, own))
        os.fdatasync(self.fd)


def spelled(seq: int, own: str) -> bytes:
    return b"%018d %b" % (seq, own.encode())
