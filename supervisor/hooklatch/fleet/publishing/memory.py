"""Remembers the newest version that this machine has seen of a fleet.  Knows one small file; knows no engine.

A log that was shortened or rewritten since is found by it, also where no host reports.
"""

from __future__ import annotations

import hashlib
import os
import tempfile

import msgspec

from hooklatch.directories import sync_folder
from hooklatch.errors import explain_error
from hooklatch.files import open_regular_file
from hooklatch.fleet.policy.manifests import START, FleetError, PolicyHead

__all__ = ["LastSeenHead"]

MOST = 4096  # bytes of the file


class SeenHeadFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: for people the fleet and where its engine is, and the head."""

    fleet: str
    url: str
    head: PolicyHead


class LastSeenHead:
    """The head that was last seen of one fleet at one URL."""

    def __init__(self, folder: str, fleet: str, url: str) -> None:
        self.path = os.path.join(folder, f"{hashlib.sha256(f'{fleet} {url}'.encode()).hexdigest()[:16]}.json")
        self._fleet = fleet
        self._url = url

    def head(self) -> PolicyHead:
        """Return it, START if nothing was seen.

        Raises:
            FleetError: what was seen cannot be read.
        """
        try:
            with open_regular_file(self.path) as file:
                return msgspec.json.decode(file.read(MOST), type=SeenHeadFile).head
        except FileNotFoundError:
            return START
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FleetError(
                f"{self.path}, which says what was last seen of the fleet, cannot be read: {explain_error(error)}; "
                f"look at"
                " `hooklatch fleet history`, and remove the file if that is as it should be"
            ) from None

    def keep(self, head: PolicyHead) -> None:
        """Write the head, whole or not at all, if it is newer than the one that is there.

        Raises:
            FleetError: it cannot be written.
        """
        if head.version <= self.head().version:
            return
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            fd, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(msgspec.json.encode(SeenHeadFile(self._fleet, self._url, head)))
                    file.flush()
                    os.fsync(fd)
                os.replace(temporary, self.path)
            except OSError:
                os.unlink(temporary)
                raise
            sync_folder(folder)
        except OSError as error:
            raise FleetError(f"{self.path} cannot be written: {error.strerror}; mend that, and run it again") from None
