"""The admission of the fleet's link, and the method by which it reports what was shipped.

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
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from hooklatch.core.health import ActiveFaults
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.text import suggest_name
from hooklatch.files import create_anew
from hooklatch.fleet.settings import FleetSettings
from hooklatch.paths import FLEET_TOKEN
from hooklatch.record.writer import RecordWriter
from hooklatch.service.api.methods import AS_LINK, ApiMethod, MethodTable
from hooklatch.service.transport.connection import Connection

if TYPE_CHECKING:
    from hooklatch.core.status_answers import EmptyAnswer

__all__ = ["LinkToken", "LinkAdmission"]

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


ROLES = ("link",)


class ShippedParams(msgspec.Struct, frozen=True):
    """The number of the last entry up to which the engine has acknowledged all; 0 if it has none."""

    seq: Annotated[int, Meta(ge=0)]


class LinkAdmission(msgspec.Struct, frozen=True):
    """The admission of links; `note` records refusals."""

    token: LinkToken
    record: RecordWriter
    note: Callable[[str, dict[str, Any]], None]

    @property
    def methods(self) -> MethodTable:
        return {"fleet_shipped": ApiMethod(ShippedParams, self._shipped)}

    def admit(self, connection: Connection, role: str, token: str | None, *, has_session: bool) -> None:
        """Give a connection that sends a hello the role of a link.

        Raises:
            RpcError: it may not be a link, and keeps the role that it has.
        """
        if role not in ROLES:
            hint = suggest_name(role, ROLES) or "; the only role is link"
            raise RpcError(ErrorCode.INVALID_PARAMS, f"unknown role {role!r}{hint}")
        if has_session:
            raise RpcError(ErrorCode.INVALID_PARAMS, "a link has no session; leave one of the two out")
        refusal = self._find_refusal(connection, token)
        if refusal is not None:
            logger.warning("link refused: %s", refusal.message, extra={"connection": connection.number})
            self.note("fleet", {"action": "link refused", "problem": refusal.message})
            raise refusal
        connection.role = "link"

    def _find_refusal(self, connection: Connection, token: str | None) -> RpcError | None:
        if not connection.is_admin:
            return RpcError(ErrorCode.NOT_ADMIN, "the role link needs the admin socket")
        if token is None:
            return RpcError(ErrorCode.NOT_PERMITTED, f"the role link needs its token: {AS_LINK}")
        if not self.token.is_valid:
            text = "there is no token: hooks.toml has no [fleet] table, or `hooklatch status` says what is wrong"
            return RpcError(ErrorCode.NOT_PERMITTED, text)
        if not self.token.is_shown(token):
            text = (
                f"the token is not valid; read it again from {self.token.path}: it changes with each start of the"
                " daemon, and with [fleet]"
            )
            return RpcError(ErrorCode.NOT_PERMITTED, text)
        return None

    async def _shipped(self, connection: Connection, params: ShippedParams) -> EmptyAnswer:
        """Note what the engine has acknowledged; a smaller number than before counts too: it may have lost entries.

        Raises:
            RpcError: there is no such entry, so the engine's log is of another record.
        """
        try:
            self.record.set_shipped(params.seq)
        except ValueError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"{error}; the engine's log is of another record") from None
        return {}
