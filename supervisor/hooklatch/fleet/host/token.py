"""The link's token: a client that shows it on the admin socket is the fleet's link, and may do nothing else.

It is in one file beside the admin socket.  There is a new one at each start of the daemon and whenever [fleet] changes,
and none without [fleet].
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
from hooklatch.fleet.settings import FleetSettings
from hooklatch.paths import FLEET_TOKEN

__all__ = ["LinkToken"]

logger = logging.getLogger("hooklatch.fleet")
BYTES = 32


class LinkToken:
    """The valid token.  `on_renewed` is called when one ends: a client that has shown it must show the next."""

    def __init__(self, folder: str, faults: ActiveFaults, on_renewed: Callable[[], None]) -> None:
        self.path = os.path.join(folder, FLEET_TOKEN)
        self._faults = faults
        self._on_renewed = on_renewed
        self._settings: FleetSettings | None = None
        self._token: bytes | None = None
        self.remove()  # a killed daemon may have left its own, which is not valid

    def take(self, settings: FleetSettings | None) -> None:
        """Apply the [fleet] table: if it has changed, or the file is gone, write a new token."""
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
        """Return whether there is a token."""
        return self._token is not None

    def is_shown(self, shown: str) -> bool:
        """Return whether a client shows the valid token; the time of the comparison reveals nothing about it."""
        return self._token is not None and hmac.compare_digest(self._token, shown.encode())

    def remove(self) -> None:
        """Invalidate the token, and remove its file."""
        self._token = None
        self._faults.report("fleet token")
        with suppress(OSError):  # the token in a file that stays is not valid
            os.unlink(self.path)

    def _write(self, token: bytes) -> None:
        """Write a new token, as a whole and readable by this user alone; if that fails, it is not valid."""
        new = f"{self.path}.new"
        try:
            fd = create_anew(new)
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, 0o600)
                file.write(token + b"\n")
            os.replace(new, self.path)
        except OSError as error:
            text = f"{self.path}: {error.strerror}, so the fleet's link cannot connect; fix it, then: hooklatch reload"
            logger.error("%s", text)
            self._faults.report("fleet token", text)
            return
        self._token = token
