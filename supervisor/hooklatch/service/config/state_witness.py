"""The witness of the state file: which contents it may have, in a small file beside the record.

    the new content is on the disk, under another name ─▶ witness: before and next, synced
        ─▶ the state file is replaced ─▶ witness: next alone

A daemon that is killed in between leaves the one or the other, and both are believed.  Every other content was lost,
brought back from a copy, or written by somebody else: nobody can tell which trust and which switches it lacks.
"""

from __future__ import annotations

import os
import re
from contextlib import closing

from hooklatch.errors import locate_error
from hooklatch.record.files.mark import mark_path
from hooklatch.record.files.slots import SlotError, SlotFile, read_form
from hooklatch.service.config.path_lookup import DirectoryNames, PathAbsent, list_directory, look_up_path

__all__ = ["BEGIN", "GO_ON", "NOTHING", "StateWitness"]

COMMAND = "hooklatch state accept"
NOTHING = "0" * 64  # the digest that stands for no state file
FORM = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{64})")
GO_ON = f"put the last one back and restart, or go on with what is there: {COMMAND}"
BEGIN = f"put the last one back and restart, or begin without it: {COMMAND}"


class StateWitness:
    """The file in which the digests of the state are; `record` is the folder of the record beside it."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "state.witness")
        self._record = os.path.join(folder, "record")

    def doubt(self, path: str, digest: str) -> str | None:
        """Return why a state file with this content must not be believed; None if it may.

        Where nothing was ever recorded there is no witness yet, and it is made.
        """
        try:
            match = read_form(self.path, FORM, "the digests of a state")
            if match is None and self._is_first():
                self.settle(digest)
                return None
        except (SlotError, OSError) as error:
            return f"{locate_error(error)}: nobody knows whether {path} is as it was written last; {GO_ON}"
        if match is None:
            return f"{self.path} is gone: nobody knows whether {path} is as it was written last; {GO_ON}"
        if digest in (match[1].decode(), match[2].decode()):
            return None
        if digest == NOTHING:
            return f"{path} is gone, with the trust, switches and hooks that were in it; {BEGIN}"
        return f"{path} is not what was written last, but an older copy or somebody else's; {GO_ON}"

    def _is_first(self) -> bool:
        """Return whether nothing was recorded here yet; what cannot be looked at may be a record."""
        names = list_directory(self._record)
        is_empty = isinstance(names, PathAbsent) or (isinstance(names, DirectoryNames) and not names.names)
        return is_empty and isinstance(look_up_path(mark_path(self._record)), PathAbsent)

    def expect(self, before: str, after: str) -> None:
        """Allow two contents, on the disk when this returns.

        Raises:
            OSError: it cannot be written, and the state must not be.
        """
        with closing(SlotFile(self.path, f"{before} {after}".encode())) as slot:
            os.fdatasync(slot.fd)

    def settle(self, digest: str) -> None:
        """Allow one content alone; if that is lost, the one before is believed besides.

        Raises:
            OSError: it cannot be written.
        """
        SlotFile(self.path, f"{digest} {digest}".encode()).close()
