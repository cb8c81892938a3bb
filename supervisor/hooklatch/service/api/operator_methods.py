"""The methods of operators about projects, suspensions, asks and faults of the record.  Few daemons are sent one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.asks import NotAskedError, Verdict
from hooklatch.core.hooks.resolving import AmbiguousNameError
from hooklatch.core.hooks.suspension import SuspensionError
from hooklatch.core.limits import Name
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.errors import describe_error
from hooklatch.file_safety import UnsafeFileError
from hooklatch.path_lookup import PathAbsent, PathFault, PathFound, look_up_path
from hooklatch.record.writer import RecordError, RecordWriter
from hooklatch.service.api.hook_methods import add_storage_warning
from hooklatch.service.api.methods import AccountParams, ApiMethod, MethodTable, Operations, PolicySlot
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.reloader import Reloader, of_projects
from hooklatch.service.loading.trust import Pins, pin_files, project_hooks_folder
from hooklatch.service.registry.asks import AskBroker
from hooklatch.service.registry.places import find_real_path, look_up_directory
from hooklatch.service.registry.registries import FleetHookError, Registries, find_named_hook
from hooklatch.service.registry.suspensions import Suspensions
from hooklatch.service.transport.connection import Connection
from hooklatch.threads import in_thread, look_in_thread

if TYPE_CHECKING:
    from hooklatch.core.answers import (
        AskAnswer,
        AsksAnswer,
        CountsAnswer,
        ResumeAnswer,
        SuspendAnswer,
        TrustAnswer,
        UntrustAnswer,
    )
    from hooklatch.core.status_answers import AcknowledgeAnswer

__all__ = ["OperatorMethods"]


class FolderParams(AccountParams, frozen=True):
    folder: str


class ResumeParams(AccountParams, frozen=True):
    """The id of a hook or of a plugin, or all of them."""

    id: str | None = None
    all: bool = False

    @property
    def hook(self) -> str | None:
        if (self.id is None) is not self.all:
            raise RpcError(ErrorCode.INVALID_PARAMS, 'give the "id" of a hook or plugin, or "all": true')
        return self.id


class AcknowledgeParams(msgspec.Struct, frozen=True):
    reason: str


class AnswerParams(msgspec.Struct, frozen=True):
    """A person's answer to an ask: `by` is that person's name, `payload_digest` is of the payload that was shown."""

    id: Name
    verdict: Verdict
    reason: str
    by: Name
    payload_digest: Name | None = None


class CountsParams(msgspec.Struct, frozen=True):
    since: str | None = None


class SuspendParams(ResumeParams, frozen=True, kw_only=True):
    seconds: float


class OperatorMethods(msgspec.Struct, frozen=True, kw_only=True):
    """The methods of administrators besides those about the daemon itself."""

    reloader: Reloader
    record: RecordWriter
    projects: ProjectRegistry
    registries: Registries
    state: StateFile
    suspensions: Suspensions
    asks: AskBroker
    fleet: PolicySlot
    operations: Operations

    @property
    def methods(self) -> MethodTable:
        return {
            "acknowledge": ApiMethod(AcknowledgeParams, self._acknowledge),
            "trust": ApiMethod(FolderParams, self._trust),
            "untrust": ApiMethod(FolderParams, self._untrust),
            "suspend": ApiMethod(SuspendParams, self._suspend),
            "resume": ApiMethod(ResumeParams, self._resume),
            "asks": ApiMethod(msgspec.Raw, self._asks),
            "answer_ask": ApiMethod(AnswerParams, self._answer_ask),
            "counts": ApiMethod(CountsParams, self._counts),
        }

    async def _counts(self, connection: Connection, params: CountsParams) -> CountsAnswer:
        from hooklatch.record.storage.counting import find_counter  # few daemons are asked

        known = [hook.name for hook in self.registries.shared_hooks() if hook.enabled]
        try:
            return await in_thread(find_counter(self.record.folder).count, params.since or "", known)
        except OSError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, f"the record cannot be read: {describe_error(error)}") from None

    async def _acknowledge(self, connection: Connection, params: AcknowledgeParams) -> AcknowledgeAnswer:
        reason = params.reason.strip()
        if not reason:
            raise RpcError(ErrorCode.INVALID_PARAMS, 'give a "reason": it stays in the record')
        try:
            return {"acknowledged": await self.record.acknowledge(reason)}
        except RecordError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, str(error)) from None

    async def _trust(self, connection: Connection, params: FolderParams) -> TrustAnswer:
        """Pin the present files of a project, so that its hooks fire in the sessions that work there."""
        try:
            project, pins = await look_in_thread(lambda: pin_project(params.folder))
        except (UnsafeFileError, OSError) as error:
            raise RpcError(ErrorCode.NOT_PERMITTED, describe_error(error)) from None
        if not pins:
            raise RpcError(
                ErrorCode.NOT_FOUND, f"{project_hooks_folder(project)} contains no file; there is nothing to trust"
            )
        self.projects.trust(project, pins)
        self.operations.record(connection, "trust", params, folder=project, files=pins)
        await self.state.store()
        reloaded = await self.reloader.reload(of_projects([project]), anew=project_hooks_folder(project))
        diagnostics = [found for found in reloaded["diagnostics"] if f"{found['file']}/".startswith(f"{project}/")]
        hooks = self.registries.project_hooks(project)
        answer: TrustAnswer = {
            "folder": project,
            "files": pins,
            "hooks": [{"id": hook.id, "event": hook.event, "problem": hook.problem} for hook in hooks],
            "diagnostics": diagnostics,
            "revision": self.registries.view.revision,
        }
        add_storage_warning(self.state, answer)
        return answer

    async def _untrust(self, connection: Connection, params: FolderParams) -> UntrustAnswer:
        """Ignore a project's hooks from now on; a project that was not trusted is not an error."""
        directory = await look_up_directory(params.folder)
        # An ancestor counts: the command is often run in a subdirectory of the project.
        folders = [path for path in directory.paths if path in self.projects.trusted]
        project = folders[-1] if folders else next(reversed(directory.paths), params.folder)
        was_trusted = self.projects.untrust(project)
        if was_trusted:
            self.operations.record(connection, "untrust", params, folder=project)
            await self.state.store()
            await self.reloader.reload(of_projects([]))
        revision = self.registries.view.revision
        answer: UntrustAnswer = {"folder": project, "was_trusted": was_trusted, "revision": revision}
        add_storage_warning(self.state, answer)
        return answer

    async def _suspend(self, connection: Connection, params: SuspendParams) -> SuspendAnswer:
        hook_id = params.hook
        target = find_named_hook(hook_id, self.registries.all_hooks()) if hook_id is not None else None
        hooks = target.hooks if target is not None else self.registries.view.hooks
        unsuspendable = [hook for hook in hooks if not hook.suspendable]
        names = ", ".join(hook.name for hook in unsuspendable)
        if unsuspendable:
            self.fleet.record_attempt("suspend" if target is not None else "suspend --all", names)
        if target is not None and unsuspendable:
            raise FleetHookError(unsuspendable[0])
        try:
            suspended = await self.suspensions.suspend(
                target.name if target is not None else None, params.seconds, params.reason
            )
        except SuspensionError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        self.operations.record(connection, "suspend", params, hook_id)
        answer: SuspendAnswer = {"suspended": suspended.describe()}
        add_storage_warning(self.state, answer)
        if not unsuspendable:
            return answer
        text = f"{names}: the fleet's policy does not allow suspending them, so they still fire"
        return {**answer, "warnings": [*answer.get("warnings", []), text]}

    async def _resume(self, connection: Connection, params: ResumeParams) -> ResumeAnswer:
        try:
            was_suspended = await self.suspensions.resume(params.hook)
        except AmbiguousNameError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        self.operations.record(connection, "resume", params, params.hook)
        remaining = [suspension.describe() for suspension in self.suspensions]
        answer: ResumeAnswer = {"was_suspended": was_suspended, "suspended": remaining}
        add_storage_warning(self.state, answer)
        return answer

    async def _asks(self, connection: Connection, raw: msgspec.Raw) -> AsksAnswer:
        """List the asks that wait for a person, the oldest first."""
        return {"asks": list(self.asks)}

    async def _answer_ask(self, connection: Connection, params: AnswerParams) -> AskAnswer:
        """Resolve an ask by a person's answer; the process and the user that sent it are recorded."""
        if not params.reason.strip():
            raise RpcError(ErrorCode.INVALID_PARAMS, 'give a "reason": it stays in the record')
        pid, uid = connection.peer
        try:
            resolution = self.asks.answer(
                params.id, params.verdict, params.reason, by=params.by, uid=uid, pid=pid,
                payload_digest=params.payload_digest,
            )  # fmt: skip
        except NotAskedError as error:
            raise RpcError(ErrorCode.NOT_FOUND, str(error)) from None
        except ValueError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        if resolution.cause == "audit":
            raise RpcError(
                ErrorCode.INTERNAL_ERROR, f"the answer could not be recorded, so the ask is denied: {resolution.reason}"
            )
        if resolution.cause != "policy":
            raise RpcError(ErrorCode.NOT_FOUND, f"the ask {resolution.id} is over: {resolution.text()}")
        return {"closed": {**resolution.describe(), "uid": resolution.uid, "pid": resolution.pid}}


def pin_project(folder: str) -> tuple[str, Pins]:
    """Return the real path of a project, and the pins of its present files."""
    entry = look_up_path(folder) if os.path.isabs(folder) else PathAbsent()
    if isinstance(entry, PathFault):
        raise RpcError(ErrorCode.NOT_PERMITTED, entry.reason)
    if not isinstance(entry, PathFound) or not entry.is_folder:
        raise RpcError(ErrorCode.NOT_FOUND, f"{folder!r} is not a directory; give its absolute path")
    project = find_real_path(folder)
    return project, pin_files(project)
