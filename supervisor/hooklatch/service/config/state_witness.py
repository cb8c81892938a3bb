"""The witness of the state file: a small file beside the record, with the digests that the state file may have.

    the new content is on the disk, under another name ─▶ witness: before and next, synced
        ─▶ the state file is replaced ─▶ witness: next alone

A daemon that is killed in between leaves the one or the other, and both are believed.  Any other content is that of a
copy or of another program, or the file is gone: then it is unknown which trust and which switches are missing.
"""

from __future__ import annotations

import os
import re
from contextlib import closing

from hooklatch.errors import locate_error
from hooklatch.record.storage.mark import mark_path
from hooklatch.record.storage.slots import SlotError, SlotFile, read_form
from hooklatch.service.config.path_lookup import DirectoryNames, PathAbsent, list_directory, look_up_path

__all__ = ["BEGIN", "GO_ON", "NOTHING", "StateWitness"]

COMMAND = "hooklatch state accept"
NOTHING = "0" * 64  # the digest that stands for no state file
FORM = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{64})")
GO_ON = f"restore the last one and restart, or continue with what is there: {COMMAND}"
BEGIN = f"restore the last one and restart, or begin without it: {COMMAND}"


class StateWitness:
    """The file in which the digests of the state are; `record` is the folder of the record beside it."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "state.witness")
        self._record = os.path.join(folder, "record")

    def find_fault(self, path: str, digest: str) -> str | None:
        """Return why a state file with this content must not be believed; None if it may.

        At a first start, before anything was recorded, there is no witness yet, and this makes it.
        """
        try:
            match = read_form(self.path, FORM, "the digests of a state")
            if match is None and self._is_first():
                self.allow_only(digest)
                return None
        except (SlotError, OSError) as error:
            return f"{locate_error(error)}, so it is unknown whether {path} is the version written last; {GO_ON}"
        if match is None:
            return f"{self.path} is gone, so it is unknown whether {path} is the version written last; {GO_ON}"
        if digest in (match[1].decode(), match[2].decode()):
            return None
        if digest == NOTHING:
            return f"{path} is gone, with its trust, switches and hooks; {BEGIN}"
        return f"{path} is not the version written last, but an older copy or another program's; {GO_ON}"

    def _is_first(self) -> bool:
        """Return whether nothing was recorded here yet; a path that cannot be looked up may be a record."""
        names = list_directory(self._record)
        is_empty = isinstance(names, PathAbsent) or (isinstance(names, DirectoryNames) and not names.names)
        return is_empty and isinstance(look_up_path(mark_path(self._record)), PathAbsent)

    def allow_both(self, before: str, after: str) -> None:
        """Allow two contents; the witness is on the disk when this returns.

        Raises:
            OSError: the witness cannot be written, so the state must not be either.
        """
        with closing(SlotFile(self.path, f"{before} {after}".encode())) as slot:
            os.fdatasync(slot.fd)

    def allow_only(self, digest: str) -> None:
        """Allow one content alone, without a sync: if a power cut loses this, the content before is believed too.

        Raises:
            OSError: the witness cannot be written.
        """
        SlotFile(self.path, f"{digest} {digest}".encode()).close()
