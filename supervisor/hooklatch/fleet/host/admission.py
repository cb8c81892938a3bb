"""The token by which the fleet's link is admitted.

A link applies the fleet's layer and reports what was shipped.  It is not an administrator, so its connection has no
rights at first: its first request is a hello with its role and its token.  The token is in one file beside the admin
socket.  There is a new one at each start of the daemon and whenever [fleet] changes, and none without [fleet].
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress

from hooklatch.core.health import ActiveFaults
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.directories import replace_file
from hooklatch.fleet.settings import FleetSettings
from hooklatch.paths import FLEET_TOKEN
from hooklatch.service.api.methods import AS_LINK

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

    def find_refusal(self, shown: str | None, *, is_admin: bool) -> RpcError | None:
        """Return why a connection that shows a token may not be a link; None if it may."""
        if not is_admin:
            return RpcError(ErrorCode.NOT_ADMIN, "the role link needs the admin socket")
        if shown is None:
            return RpcError(ErrorCode.NOT_PERMITTED, f"the role link needs its token: {AS_LINK}")
        if self._token is None:
            text = "there is no token: hooks.toml has no [fleet] table, or `hooklatch status` says what is wrong"
            return RpcError(ErrorCode.NOT_PERMITTED, text)
        if not hmac.compare_digest(self._token, shown.encode()):  # its time reveals nothing about the token
            text = (
                f"the token is not valid; read it again from {self.path}: it changes with each start of the daemon, and"
                " with [fleet]"
            )
            return RpcError(ErrorCode.NOT_PERMITTED, text)
        return None

    def remove(self) -> None:
        """Invalidate the token, and remove its file."""
        self._token = None
        self._faults.report("fleet token")
        with suppress(OSError):  # the token in a file that stays is not valid
            os.unlink(self.path)

    def _write(self, token: bytes) -> None:
        """Write a new token, as a whole and readable by this user alone; if that fails, it is not valid."""
        try:
            replace_file(self.path, token + b"\n")
        except OSError as error:
            text = f"{self.path}: {error.strerror}, so the fleet's link cannot connect; fix it, then: hooklatch reload"
            logger.error("%s", text)
            self._faults.report("fleet token", text)
            return
        self._token = token
