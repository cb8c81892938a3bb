"""How a connection becomes the fleet's link, and what only that may say of the record.  Knows the token, not the fleet.

A link applies the fleet's layer and reports what was shipped; it is no administrator, so it begins as nobody: its first
request is a hello with its role and its token.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.text import suggest_name
from hooklatch.record.writer import RecordWriter
from hooklatch.service.api.methods import AS_LINK, ApiMethod, MethodTable
from hooklatch.service.fleet.token import LinkToken
from hooklatch.service.transport.connection import Connection

__all__ = ["LinkAdmission"]

logger = logging.getLogger("hooklatch.fleet")
ROLES = ("link",)


class ShippedParams(msgspec.Struct, frozen=True):
    """The last record up to which the engine has acknowledged all; 0: none."""

    seq: Annotated[int, Meta(ge=0)]


class LinkAdmission(msgspec.Struct, frozen=True):
    """Admits links; `note` records who was refused."""

    token: LinkToken
    record: RecordWriter
    note: Callable[[str, dict[str, Any]], None]

    @property
    def methods(self) -> MethodTable:
        return {"fleet_shipped": ApiMethod(ShippedParams, self._shipped)}

    def admit(self, connection: Connection, role: str, token: str | None, *, has_session: bool) -> None:
        """Make a connection that says hello a link.

        Raises:
            RpcError: it may not be one; it stays what it was.
        """
        if role not in ROLES:
            meant = suggest_name(role, ROLES) or "; there is link"
            raise RpcError(ErrorCode.INVALID_PARAMS, f"unknown role {role!r}{meant}")
        if has_session:
            raise RpcError(ErrorCode.INVALID_PARAMS, "a link has no session; leave one of the two out")
        refusal = self._refusal(connection, token)
        if refusal is not None:
            logger.warning("link refused: %s", refusal.message, extra={"connection": connection.number})
            self.note("fleet", {"action": "link refused", "problem": refusal.message})
            raise refusal
        connection.role = "link"

    def _refusal(self, connection: Connection, token: str | None) -> RpcError | None:
        if not connection.is_admin:
            return RpcError(ErrorCode.NOT_ADMIN, "the role link needs the admin socket")
        if token is None:
            return RpcError(ErrorCode.NOT_PERMITTED, f"the role link needs its token: {AS_LINK}")
        if not self.token.is_valid:
            what = "there is no token: hooks.toml has no [fleet] table, or `hooklatch status` says what is wrong"
            return RpcError(ErrorCode.NOT_PERMITTED, what)
        if not self.token.is_shown(token):
            what = f"that is not the token; read {self.token.path} anew: it changes with each start, and with [fleet]"
            return RpcError(ErrorCode.NOT_PERMITTED, what)
        return None

    async def _shipped(self, connection: Connection, params: ShippedParams) -> object:
        """Take what the engine has acknowledged; a smaller number than before counts too: it may have lost some.

        Raises:
            RpcError: there is no such record, so that one is of another record than ours.
        """
        try:
            self.record.set_shipped(params.seq)
        except ValueError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"{error}; the engine's log is of another record") from None
        return {}
