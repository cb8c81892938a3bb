"""The anchor: the newest record that is on the disk, told beside the segments.  Knows one small file.

What is cut off the end of a chain leaves a chain that is whole.  The anchor shows it, up to the last sync.
"""

from __future__ import annotations

import os
import re

from hooklatch.record.files.slots import Slot, SlotError, read_slot

__all__ = ["Anchor", "path_of_anchor", "read_anchor"]

FORM = re.compile(rb"(\d{18}) ([0-9a-f]{64})")


def path_of_anchor(folder: str) -> str:
    return os.path.join(folder, "anchor")


def read_anchor(folder: str) -> tuple[int, str] | None:
    """Return the number and the hash that it holds; None where there is none.

    Raises:
        SlotError: it holds something else.
    """
    path = path_of_anchor(folder)
    text = read_slot(path)
    if text is None:
        return None
    match = FORM.fullmatch(text)
    if match is None:
        raise SlotError(f"{path} holds no anchor; somebody wrote to it")
    return int(match[1]), match[2].decode()


class Anchor:
    """The anchor of a record that is written to."""

    def __init__(self, folder: str, seq: int, own: str) -> None:
        """Make it say this.

        Raises:
            OSError: it cannot be written.
        """
        self.path = path_of_anchor(folder)
        self.slot = Slot(self.path, spelled(seq, own))

    def write(self, seq: int, own: str) -> None:
        """Set it, on the disk.

        Raises:
            OSError: it could not be written.
        """
        self.slot.write(spelled(seq, own))
        os.fdatasync(self.slot.fd)

    def close(self) -> None:
        self.slot.close()


def spelled(seq: int, own: str) -> bytes:
    return b"%018d %b" % (seq, own.encode())
