"""What only the admin socket does: reload, trust, suspend, stop.  Knows params and results; knows no connection."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hooklatch.core.hooks.names import AmbiguousNameError
from hooklatch.core.protocol import ErrorCode, RpcError, convert
from hooklatch.record.writer import RecordError
from hooklatch.service.api.hub import Hub

__all__ = ["Administration", "stored"]


class FolderParams(msgspec.Struct, frozen=True):
    folder: str


class ResumeParams(msgspec.Struct, frozen=True):
    """A hook's or a plugin's id, or every hook there is."""

    id: str | None = None
    all: bool = False

    @property
    def hook(self) -> str | None:
        if (self.id is None) is not self.all:
            raise RpcError(ErrorCode.INVALID_PARAMS, 'give the "id" of a hook or plugin, or "all": true')
        return self.id


class AcknowledgeParams(msgspec.Struct, frozen=True):
    reason: str


class SuspendParams(ResumeParams, frozen=True, kw_only=True):
    seconds: float
    reason: str


def stored(hub: Hub, result: dict[str, Any]) -> dict[str, Any]:
    """Add to the answer of a global change that it is in force and could not be stored, if so."""
    fault = hub.state.unwritten
    return {**result, "warnings": [fault]} if fault is not None else result


class Administration:
    """Answers an operator's requests."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.methods: dict[str, Callable[[msgspec.Raw], Awaitable[object]]] = {
            "reload": self._reload,
            "trust": self._trust,
            "untrust": self._untrust,
            "suspend": self._suspend,
            "resume": self._resume,
            "stop": self._stop,
            "acknowledge": self._acknowledge,
        }

    async def _reload(self, raw: msgspec.Raw) -> object:
        return await self._hub.reload()

    async def _trust(self, raw: msgspec.Raw) -> object:
        return await self._hub.trust(convert(raw, FolderParams).folder)

    async def _untrust(self, raw: msgspec.Raw) -> object:
        return await self._hub.untrust(convert(raw, FolderParams).folder)

    async def _suspend(self, raw: msgspec.Raw) -> object:
        params = convert(raw, SuspendParams)
        made = await self._hub.suspend(params.hook, params.seconds, params.reason)
        return stored(self._hub, {"suspended": made})

    async def _resume(self, raw: msgspec.Raw) -> object:
        try:
            was_suspended = await self._hub.suspensions.resume(convert(raw, ResumeParams).hook)
        except AmbiguousNameError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        return stored(self._hub, {"was_suspended": was_suspended, "suspended": list(self._hub.suspensions)})

    async def _stop(self, raw: msgspec.Raw) -> object:
        """Begin to drain, unless that has begun; the connection ends with the daemon."""
        hub = self._hub
        if hub.end is None:
            raise RpcError(ErrorCode.NOT_PERMITTED, "this daemon is part of another program; end that")
        if not hub.dispatcher.is_draining:
            hub.end()
        return {"pid": os.getpid()}

    async def _acknowledge(self, raw: msgspec.Raw) -> object:
        reason = convert(raw, AcknowledgeParams).reason.strip()
        if not reason:
            raise RpcError(ErrorCode.INVALID_PARAMS, 'give a "reason": it stays in the record')
        try:
            return {"acknowledged": await self._hub.record.acknowledge(reason)}
        except RecordError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, str(error)) from None
