"""The runner of hooks in a real worker: a daemon of its own in a thread, with its zygote, limits and deadlines.

The daemon's parts are loaded for the first worker.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.testing.daemon import (
    check_system,
    make_daemon_options,
    make_scratch_folder,
    reset_daemon,
    settle_environments,
    write_source_config,
)
from hooklatch.testing.events import NotAnEventError, find_event_spec, read_envelope
from hooklatch.testing.in_process import NotAHookError
from hooklatch.testing.results import Result
from hooklatch_worker.author.event import Event

if TYPE_CHECKING:
    import trio

    from hooklatch.core.messages import FireDecision
    from hooklatch.path_lookup import Stamp
    from hooklatch.service.parts import DaemonComponents

__all__ = ["HooksLoadError", "Worker", "WorkerHook", "fire_at"]


class HooksLoadError(Exception):
    """The hooks do not load; the text says what is wrong, with file and line."""


class Worker:
    """The hooks of a Python file, or of a whole `hooks.toml`, in worker processes.  Close it, or use it in a `with`.

    `worker.run(event)` fires at all of them; `worker["no_rm"]` is one of them alone, by its function or its id.
    `settings` is TOML that comes before the source, such as an `[[event]]` of your own.

    Raises:
        HooksLoadError: the hooks do not load.
        NotHereError: hooks cannot be run on this system.
    """

    def __init__(self, path: str | os.PathLike[str] | ModuleType, *, settings: str = "") -> None:
        file = os.path.abspath(str(path.__file__) if isinstance(path, ModuleType) else path)
        if not os.path.isfile(file):
            raise HooksLoadError(f"{file} is not there; name a file of hooks")
        self.title = os.path.basename(file)
        self._loaded = LoadedHooks()
        self._thread = DaemonThread(file, settings)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getitem__(self, name: str) -> WorkerHook:
        return WorkerHook(self, name)

    def run(self, event: Event, *, only: str | None = None) -> Result:
        """Fire an event at the hooks, and return the decision.

        Files that have changed are loaded first, so that a test never runs an earlier version.

        Raises:
            HooksLoadError: the hooks do not load any more.
            NotAHookError: no hook of that name is on this event.
        """
        return Result(decision=self._thread.ask(partial(self._loaded.fire, event, only)))

    def clear(self) -> None:
        """Clear the hooks' shared state."""
        self._thread.ask(forget_worker)

    def close(self) -> None:
        """End the worker processes."""
        self._thread.close()


class WorkerHook:
    """One hook of a worker."""

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker, self._name = worker, name

    @property
    def title(self) -> str:
        return self._name

    def run(self, event: Event) -> Result:
        """Fire an event at this hook alone, and return the decision."""
        return self._worker.run(event, only=self._name)


class DaemonThread:
    """A daemon in a thread of its own, which runs functions for other threads."""

    def __init__(self, file: str, settings: str) -> None:
        check_system()
        self._file, self._settings = file, settings
        self._parts: DaemonComponents | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._end: trio.Event | None = None
        self._error: BaseException | None = None
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._live, name="hooklatch daemon", daemon=True)
        self._thread.start()
        try:
            self._is_up.wait()
        except BaseException:
            self.close()
            raise
        if self._error is not None:
            self._thread.join()
            raise self._error

    def ask(self, question: Callable[[DaemonComponents], Any]) -> Any:
        """Have the daemon answer an async question about its parts."""
        import trio

        if self._parts is None or not self._thread.is_alive():
            raise HooksLoadError("the worker is closed")
        return trio.from_thread.run(question, self._parts, trio_token=self._token)

    def close(self) -> None:
        """End the daemon, and wait for that."""
        import trio

        token, end = self._token, self._end
        if token is not None and end is not None and self._thread.is_alive():
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(end.set)
        self._thread.join()

    def _live(self) -> None:
        import trio

        try:
            with ExitStack() as opened:
                scratch = opened.enter_context(make_scratch_folder())
                config = self._file
                if not config.endswith(".toml"):
                    config = write_source_config([self._file], scratch, settings=self._settings)
                trio.run(self._serve, config, scratch)
        except BaseException as error:  # raised in the thread that waits for this daemon
            self._error = error
        finally:
            self._is_up.set()

    async def _serve(self, config: str, scratch: str) -> None:
        import trio

        from hooklatch.service.daemon import open_daemon

        self._token, self._end = trio.lowlevel.current_trio_token(), trio.Event()
        async with open_daemon(make_daemon_options(config, scratch)) as daemon:
            parts = daemon.parts
            await settle_environments(parts)
            try:
                check_loaded(parts)
            except HooksLoadError as error:
                self._error = error
                return
            self._parts = parts
            self._is_up.set()
            await self._end.wait()


async def forget_worker(parts: DaemonComponents) -> None:
    reset_daemon(parts)


class LoadedHooks:
    """The hooks that are loaded, with the versions of their files."""

    def __init__(self) -> None:
        self._seen: dict[str, Stamp] | None = None

    async def fire(self, event: Event, only: str | None, parts: DaemonComponents) -> FireDecision:
        """Fire an event at the hooks, after a reload of changed files.

        Raises:
            HooksLoadError: the hooks do not load.
        """
        from hooklatch.service.loading.plan import EVERYTHING
        from hooklatch.service.loading.reloader import ReloadRequest

        if (before := await parts.reloader.stamps()) != self._seen:
            await parts.reloader.reload(ReloadRequest(EVERYTHING))
            await settle_environments(parts)
            # The stamps from before the reload: a file that was written during it is reloaded by the next fire.
            self._seen = {path: before.get(path, now) for path, now in (await parts.reloader.stamps()).items()}
        check_loaded(parts)
        return await fire_event(event, only, parts)


def check_loaded(parts: DaemonComponents) -> None:
    if wrong := parts.reloader.active.diagnostics:
        raise HooksLoadError("\n".join(map(str, wrong)))


async def fire_event(event: Event, only: str | None, parts: DaemonComponents) -> FireDecision:
    parts.breakers.clear()
    spec = find_event_spec(event)
    if parts.registries.catalogue.get(spec.name) is None:
        raise NotAnEventError(f"the hooks know no event {spec.name!r}; define it in settings: [[event]]")
    payload = msgspec.Raw(msgspec.json.encode(event.payload))
    envelope = {key: value for key, value in read_envelope(event).items() if key not in ("call_id", "context")}
    params = FireParams(
        spec.name, payload, context=read_envelope(event).get("context"), envelope=EnvelopeParams(**envelope)
    )
    config = msgspec.json.encode(event.config) if event.config else None
    return await fire_at(parts, params, only=only, config=config)


async def fire_at(
    parts: DaemonComponents, params: FireParams, *, only: str | None = None, config: bytes | None = None
) -> FireDecision:
    """Fire an event at all hooks, or at those of one name alone; `config` is handed to them in place of their own.

    Raises:
        NotAHookError: no hook of that name is on this event.
    """
    from hooklatch.service.dispatch.fires import DialectPlan

    spec = parts.registries.find_event(params.event)

    def arrange(hooks: Sequence[Hook]) -> Sequence[Hook]:
        found = [hook for hook in hooks if only is None or is_called(hook, only)]
        return found if config is None else [msgspec.structs.replace(hook, config=config) for hook in found]

    known = [hook for hook in parts.registries.view.hooks if only is not None and is_called(hook, only)]
    if only is not None and not any(hook.event == spec.name for hook in known):
        others = f", but of {', '.join(sorted({hook.event for hook in known}))}" if known else ""
        raise NotAHookError(f"{only} is not a hook of {spec.name}{others}")
    return await parts.dispatcher.fire(params, None, plan=DialectPlan(spec, arrange))


def is_called(hook: Hook, name: str) -> bool:
    function = hook.target.function if isinstance(hook.target, PythonTarget) else None
    return name in (function, hook.id, hook.name)
