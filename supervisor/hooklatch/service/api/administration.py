"""The methods of the admin socket about the daemon itself: reload and stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.hooks.registry import PythonTarget
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.service.api.methods import (
    AccountParams,
    ApiMethod,
    MethodTable,
    Operations,
    PolicyRejectedError,
    PolicySlot,
)
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.loading.plan import EVERYTHING, LESS, LossAcceptance
from hooklatch.service.loading.reloader import Reloader, ReloadRequest
from hooklatch.service.registry.registries import Registries, find_named_hook
from hooklatch.service.transport.connection import Connection

if TYPE_CHECKING:
    from hooklatch.core.status_answers import ReloadAnswer, StopAnswer

__all__ = ["Administration"]


class ReloadParams(AccountParams, frozen=True):
    """The source to build afresh, by its path or module, or by the id of a hook on it; without it, all of them.

    `accept_removed`: hooks that have vanished are removed.
    """

    id: str | None = None
    accept_removed: bool = False


class Administration(msgspec.Struct, frozen=True, kw_only=True):
    """The methods about the daemon itself.

    `end` ends the process; it is None if the daemon is a part of another program.
    """

    files: Reloader
    breakers: Breakers
    dispatcher: Dispatcher
    registries: Registries
    fleet: PolicySlot
    operations: Operations
    end: Callable[[], None] | None

    @property
    def methods(self) -> MethodTable:
        return {"reload": ApiMethod(ReloadParams, self._reload), "stop": ApiMethod(msgspec.Raw, self._stop)}

    async def reload(
        self, accepts: LossAcceptance = LESS, on_commit: Callable[[list[str]], None] = lambda removed: None
    ) -> ReloadAnswer:
        """Apply every change of the files, build every source afresh, and lift every quarantine."""
        self.breakers.clear()
        reloaded = await self.files.reload(ReloadRequest(accepts, is_explicit=True, on_commit=on_commit))
        if accepts.less and self.files.active.is_main_good and await self.fleet.leave():
            # The first reload read that [fleet] is gone, and only then may its policy go.  This one removes its hooks.
            after = await self.files.reload(ReloadRequest(accepts))
            after["previous"], after["accepted"] = reloaded["previous"], reloaded["accepted"]
            return after
        return reloaded

    async def _reload(self, connection: Connection, params: ReloadParams) -> ReloadAnswer:
        """Reload all, or build one source afresh.

        Raises:
            RpcError: there is no such source, or the params contradict each other.
        """
        if params.id is not None and params.accept_removed:
            text = 'give an "id" or "accept_removed"; to remove one hook that has vanished: hooklatch hooks remove ID'
            raise RpcError(ErrorCode.INVALID_PARAMS, text)

        def record_reload(removed: list[str]) -> None:
            self.operations.record(connection, "reload", params, params.id, accepted=removed)

        if params.id is not None:
            location = self._find_location(params.id)
            self.breakers.clear(location)
            return await self.files.reload(ReloadRequest(afresh={location}, on_commit=record_reload))
        try:
            return await self.reload(EVERYTHING if params.accept_removed else LESS, record_reload)
        except PolicyRejectedError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, str(error)) from None

    def _find_location(self, name: str) -> str:
        """Return the location of the source that a name means: its own path or module, or a hook on it.

        Raises:
            RpcError: there is none, or a client serves the hook.
        """
        if name in self.files.sources:
            return name
        hook = find_named_hook(name, self.registries.every_hook()).hooks[0]
        if not isinstance(hook.target, PythonTarget):
            raise RpcError(ErrorCode.NOT_FOUND, f"{hook.name} is served by its client, so there is nothing to reload")
        if hook.target.source.location in self.files.sources:
            return hook.target.source.location
        raise RpcError(ErrorCode.NOT_FOUND, f"{hook.name} has no source now: {hook.problem}")

    async def _stop(self, connection: Connection, raw: msgspec.Raw) -> StopAnswer:
        """Begin to drain, unless the daemon does already.  The connection ends with the daemon."""
        if self.end is None:
            raise RpcError(ErrorCode.NOT_PERMITTED, "this daemon is part of another program; end that program")
        if not self.dispatcher.is_draining:
            self.end()
        return {"pid": os.getpid()}
