"""The link's token: whoever shows it on the admin socket is the fleet's link, and may do nothing else.

It is in one file beside the admin socket, new at each start of the daemon and whenever [fleet] changes, and not there
without [fleet].  Knows that file; answers no request.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress

from hooklatch.core.health import ActiveFaults
from hooklatch.files import create_anew
from hooklatch.fleet.policy.settings import FleetSettings
from hooklatch.paths import FLEET_TOKEN

__all__ = ["LinkToken"]

logger = logging.getLogger("hooklatch.fleet")
BYTES = 32


class LinkToken:
    """The token that is valid now.  `on_renewed` is called when one ends: whoever has shown it must show the next."""

    def __init__(self, folder: str, faults: ActiveFaults, on_renewed: Callable[[], None]) -> None:
        self.path = os.path.join(folder, FLEET_TOKEN)
        self._faults = faults
        self._on_renewed = on_renewed
        self._settings: FleetSettings | None = None
        self._token: bytes | None = None
        self.remove()  # one that a killed daemon left is worth nothing

    def take(self, settings: FleetSettings | None) -> None:
        """Apply the [fleet] table: with another one, or if the file is gone, there is a new token."""
        is_there = self._token is not None and os.path.exists(self.path)
        if settings == self._settings and is_there is (settings is not None):
            return
        self._settings = settings
        self.remove()
        self._on_renewed()
        if settings is not None:
            self._write(secrets.token_hex(BYTES).encode())

    @property
    def is_valid(self) -> bool:
        """Whether there is one."""
        return self._token is not None

    def is_shown(self, shown: str) -> bool:
        """Return whether somebody shows the token that is valid now; how long that takes says nothing about it."""
        return self._token is not None and hmac.compare_digest(self._token, shown.encode())

    def remove(self) -> None:
        """Make the token void, and remove its file."""
        self._token = None
        self._faults.report("fleet token")
        with suppress(OSError):  # what is left in it opens nothing
            os.unlink(self.path)

    def _write(self, token: bytes) -> None:
        """Write a new token, whole and readable by nobody else; without its file it is not valid."""
        new = f"{self.path}.new"
        try:
            fd = create_anew(new)
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, 0o600)
                file.write(token + b"\n")
            os.replace(new, self.path)
        except OSError as error:
            text = f"{self.path}: {error.strerror}, so the fleet's link cannot connect; mend it, and: hooklatch reload"
            logger.error("%s", text)
            self._faults.report("fleet token", text)
            return
        self._token = token
