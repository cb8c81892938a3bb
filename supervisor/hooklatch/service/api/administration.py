"""What only the admin socket does: reload, trust, suspend, stop.  Knows params and results, but no connection."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from hooklatch.core.hooks.names import AmbiguousNameError
from hooklatch.core.hooks.suspension import SuspensionError
from hooklatch.core.protocol import ErrorCode, RpcError, convert
from hooklatch.record.writer import Record, RecordError
from hooklatch.service.api.global_hooks import stored
from hooklatch.service.config.file_safety import UnsafeFileError
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.loading.files import Files, Reloaded
from hooklatch.service.loading.projects import Projects
from hooklatch.service.loading.trust import folder_of, pin
from hooklatch.service.registry.registries import Registries, found
from hooklatch.service.registry.suspensions import Suspensions

__all__ = ["AdminMethods", "Administration", "BreakGlass", "Trusting"]

AdminMethods: TypeAlias = Mapping[str, Callable[[msgspec.Raw], Awaitable[object]]]


class FolderParams(msgspec.Struct, frozen=True):
    folder: str


class ResumeParams(msgspec.Struct, frozen=True):
    """A hook's or a plugin's id, or all of them."""

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


class Administration:
    """The daemon itself: reload, stop, acknowledge.  `end` ends the process, if it is the daemon's own."""

    def __init__(
        self, files: Files, breakers: Breakers, dispatcher: Dispatcher, record: Record, end: Callable[[], None] | None
    ) -> None:
        self._files = files
        self._breakers = breakers
        self._dispatcher = dispatcher
        self._record = record
        self._end = end
        self.methods: AdminMethods = {
            "reload": self._reload,
            "stop": self._stop,
            "acknowledge": self._acknowledge,
        }

    async def reload(self) -> Reloaded:
        """Apply every change of the files, removals too, and lift every quarantine."""
        self._breakers.clear()
        return await self._files.reload(is_explicit=True)

    async def _reload(self, raw: msgspec.Raw) -> object:
        return await self.reload()

    async def _stop(self, raw: msgspec.Raw) -> object:
        """Begin to drain, unless that has begun; the connection ends with the daemon."""
        if self._end is None:
            raise RpcError(ErrorCode.NOT_PERMITTED, "this daemon is part of another program; end that")
        if not self._dispatcher.is_draining:
            self._end()
        return {"pid": os.getpid()}

    async def _acknowledge(self, raw: msgspec.Raw) -> object:
        reason = convert(raw, AcknowledgeParams).reason.strip()
        if not reason:
            raise RpcError(ErrorCode.INVALID_PARAMS, 'give a "reason": it stays in the record')
        try:
            return {"acknowledged": await self._record.acknowledge(reason)}
        except RecordError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, str(error)) from None


class Trusting:
    """Projects' own hooks: trust, untrust."""

    def __init__(self, projects: Projects, files: Files, registries: Registries, state: StateFile) -> None:
        self._projects = projects
        self._files = files
        self._registries = registries
        self._state = state
        self.methods: AdminMethods = {"trust": self._trust, "untrust": self._untrust}

    async def _trust(self, raw: msgspec.Raw) -> dict[str, Any]:
        """Pin what a project's directory holds now, so that its hooks fire in the sessions that work there.

        Raises:
            RpcError: there is nothing to trust, or somebody else could have written it.
        """
        project = real_folder(convert(raw, FolderParams).folder)
        try:
            pins = pin(project)
        except (UnsafeFileError, OSError) as error:
            raise RpcError(ErrorCode.NOT_PERMITTED, str(error)) from None
        if not pins:
            raise RpcError(ErrorCode.NOT_FOUND, f"{folder_of(project)} contains no file; there is nothing to trust")
        self._projects.trust(project, pins)
        await self._state.store()
        reloaded = await self._files.reload(anew=folder_of(project))
        below = [one for one in reloaded.diagnostics if one.file == project or one.file.startswith(f"{project}/")]
        hooks = self._registries.project_hooks(project)
        return {
            "folder": project,
            "files": pins,
            "hooks": [{"id": hook.id, "event": hook.event, "problem": hook.problem} for hook in hooks],
            "diagnostics": below,
            "revision": self._registries.view.revision,
        }

    async def _untrust(self, raw: msgspec.Raw) -> dict[str, Any]:
        """Ignore a project's hooks from now on; a project that was not trusted is not an error."""
        project = without_links(convert(raw, FolderParams).folder)
        was_trusted = self._projects.untrust(project)
        if was_trusted:
            await self._state.store()
            await self._files.reload()
        return {"folder": project, "was_trusted": was_trusted, "revision": self._registries.view.revision}


class BreakGlass:
    """Leaving hooks out for a limited time: suspend, resume."""

    def __init__(self, suspensions: Suspensions, registries: Registries, state: StateFile) -> None:
        self._suspensions = suspensions
        self._registries = registries
        self._state = state
        self.methods: AdminMethods = {"suspend": self._suspend, "resume": self._resume}

    async def _suspend(self, raw: msgspec.Raw) -> object:
        params = convert(raw, SuspendParams)
        hook = params.hook
        name = found(hook, self._registries.every_hook()).name if hook is not None else None
        try:
            made = await self._suspensions.suspend(name, params.seconds, params.reason)
        except SuspensionError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        return stored(self._state, {"suspended": made})

    async def _resume(self, raw: msgspec.Raw) -> object:
        try:
            was_suspended = await self._suspensions.resume(convert(raw, ResumeParams).hook)
        except AmbiguousNameError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        return stored(self._state, {"was_suspended": was_suspended, "suspended": list(self._suspensions)})


def real_folder(folder: str) -> str:
    if not os.path.isabs(folder) or not os.path.isdir(folder):
        raise RpcError(ErrorCode.NOT_FOUND, f"{folder!r} is not a directory; give its absolute path")
    return without_links(folder)


def without_links(folder: str) -> str:
    return os.path.realpath(folder)
