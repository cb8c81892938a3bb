"""The file with the newest version that this machine has seen of a fleet.

It reveals a log that was shortened or rewritten since, even where no host reports.
"""

from __future__ import annotations

import hashlib
import os
import tempfile

import msgspec

from hooklatch.directories import sync_folder
from hooklatch.errors import explain_error
from hooklatch.files import open_regular_file
from hooklatch.fleet.manifests import START, FleetError, PolicyHead

__all__ = ["LastSeenHead"]

MAX_FILE = 4096  # bytes of the file


class SeenHeadFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file: the head, and for people the fleet and its engine's URL."""

    fleet: str
    url: str
    head: PolicyHead


class LastSeenHead:
    """The head that was last seen of one fleet at one URL."""

    def __init__(self, folder: str, fleet: str, url: str) -> None:
        self.path = os.path.join(folder, f"{hashlib.sha256(f'{fleet} {url}'.encode()).hexdigest()[:16]}.json")
        self._fleet = fleet
        self._url = url

    def read_head(self) -> PolicyHead:
        """Return the head, START if there is no file.

        Raises:
            FleetError: the file cannot be read.
        """
        try:
            with open_regular_file(self.path) as file:
                return msgspec.json.decode(file.read(MAX_FILE), type=SeenHeadFile).head
        except FileNotFoundError:
            return START
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FleetError(
                f"{self.path}, which holds the newest version that was seen of the fleet, cannot be read:"
                f" {explain_error(error)}; check `hooklatch fleet history`, and remove the file if that is as it should"
                " be"
            ) from None

    def write_head(self, head: PolicyHead) -> None:
        """Write the head, whole or not at all, if it is newer than the head in the file.

        Raises:
            FleetError: it cannot be written.
        """
        if head.version <= self.read_head().version:
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
