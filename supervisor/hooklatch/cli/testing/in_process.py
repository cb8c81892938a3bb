"""Runs Python hooks in this process instead of in workers, for a debugger.  Everything else is as in a daemon.

Files are loaded as in a worker, hooks are matched and combined by the daemon's own dispatcher, and called by the code
that calls them in a worker.  Shell hooks still run in workers, and so do sources with an environment of their own:
its packages are not those of this process.  There is no deadline: a person may be thinking.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

import trio

from hooklatch.cli.terminal import output
from hooklatch.core.decisions.call import Call
from hooklatch.core.hooks.builtin_sources import BUILTIN_SOURCES
from hooklatch.core.hooks.registry import PythonTarget
from hooklatch.core.messages import Outcome
from hooklatch.processes.fire_context import FireContext
from hooklatch.service.building.sources import Unit as Proven
from hooklatch.service.building.sources import read
from hooklatch.service.dispatch.calls import Target, Targets
from hooklatch.service.dispatch.dialect_fires import Native
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.recording import Recording
from hooklatch.service.loading.project_freshness import ProjectFreshness
from hooklatch.service.process.parts import Parts
from hooklatch.testing.in_process import call_here
from hooklatch_worker import wire
from hooklatch_worker.author.state import Asked, StateError
from hooklatch_worker.runtime.build import Build
from hooklatch_worker.runtime.loader import SourceError, Unit, load

__all__ = ["dispatchers_of"]

Key = tuple[str, int]


def dispatchers_of(parts: Parts, *, debug: Callable[[str, BaseException], None] | None) -> tuple[Dispatcher, Native]:
    """Return what decides with hooks in this process; `debug` is called with a hook's name and what it raised."""
    say_what_stays(parts)
    targets = Targets(
        Pools(parts, debug), parts.bus.connections, parts.statistics, breakers=parts.breakers, native=parts.dialects,
        on_quarantine=parts.notes.quarantined,
    )  # fmt: skip
    dispatcher = Dispatcher(
        parts.registries, targets, parts.generations, parts.statistics,
        projects=ProjectFreshness(parts.projects, parts.files, parts.file_watch, parts.registries.take_settings),
        suspensions=parts.suspensions, asks=parts.asks, recording=Recording(parts.record), state=parts.shared_state,
        audience=parts.bus, budget=parts.budget,
    )  # fmt: skip
    return dispatcher, Native(dispatcher)


def say_what_stays(parts: Parts) -> None:
    for location, unit in parts.sources.units.items():
        if unit.environment is not None:
            output.complain(
                f"{location} has an environment of its own, so its hooks run in workers, not in this process"
            )


class Pools(Mapping[Key, Target]):
    """In place of the pools of workers: each source of the author's, loaded here when it is first called."""

    def __init__(self, parts: Parts, debug: Callable[[str, BaseException], None] | None) -> None:
        self._real = parts.sources.pools
        self._debug = debug
        self._loaded: dict[Key, Here] = {}
        self._builtin = {source.location for source in BUILTIN_SOURCES}
        self._units = parts.sources.units

    def __getitem__(self, key: Key) -> Target:
        location = key[0]
        if location in self._builtin or self._units[location].environment is not None:
            return self._real[key]
        if key not in self._loaded:
            self._real[key]  # there is one only if a worker has loaded it
            self._loaded[key] = Here(self._units[location], self._debug)
        return self._loaded[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)


class Here:
    """One source, in this process."""

    def __init__(self, proven: Proven, debug: Callable[[str, BaseException], None] | None) -> None:
        self._proven = proven
        self._source = proven.source
        self._debug = debug
        self._unit: Unit | None = None
        self._numbers = itertools.count(1)

    async def call(self, call: Call, fire: FireContext, deadline: float) -> Outcome:
        """Run one callback in a thread of its own, and those after it later."""
        return await trio.to_thread.run_sync(
            self._call, call, fire, trio.lowlevel.current_trio_token(), abandon_on_cancel=True
        )

    def _call(self, call: Call, fire: FireContext, token: trio.lowlevel.TrioToken) -> Outcome:
        hook, target = call.hook, call.hook.target
        assert isinstance(target, PythonTarget)
        if self._unit is None:
            try:
                self._unit = load(self._source, self._build(), frozenset(sys.modules))
            except SourceError as error:
                return Outcome(cause="load", message=str(error))
        function = self._unit.functions.get(target.function)
        if function is None:
            return Outcome(cause="load", message=f"{self._source.location} has no function {target.function!r}")
        outcome, raised = call_here(
            function, call, FireLine(call, fire, token), path=self._unit.path, number=next(self._numbers),
            spec=fire.spec, envelope=fire.envelope.with_context(call.context), config=hook.config,
        )  # fmt: skip
        if raised is not None and self._debug is not None:
            self._debug(hook.name, raised)
        return outcome

    def _build(self) -> Build | None:
        """Return what a worker proved, left open: a debugger may have changed the files."""
        if self._source.kind != "file":
            return None
        code = wire.Code(
            read(self._source).code, self._proven.folder, self._proven.loaded.build or wire.Build(), is_open=True
        )
        return Build(self._source.location, code)


class FireLine:
    """What a hook in a thread asks of the daemon's state."""

    def __init__(self, call: Call, fire: FireContext, token: trio.lowlevel.TrioToken) -> None:
        self._call, self._fire, self._token = call, fire, token
        self._call_id: int | None = None

    def begin(self, call_id: int) -> None:
        """Record which call is under way from now on."""
        self._call_id = call_id

    def end(self) -> None:
        """Refuse further questions."""
        self._call_id = None

    def ask(self, asked: Asked) -> bytes:
        """Have the daemon perform one operation; return its value.

        Raises:
            StateError: it was not done.
        """
        # Not `trio.from_thread`, which refuses where the callback has an event loop of its own in this thread.
        answered: Future[wire.Told] = Future()
        self._token.run_sync_soon(self._answer, asked, answered)
        told = answered.result()
        if told.error:
            raise StateError(told.error)
        return told.value

    def _answer(self, asked: Asked, answered: Future[wire.Told]) -> None:
        try:
            answered.set_result(self._fire.answer(self._call, asked))
        except BaseException as error:  # the thread waits for it
            answered.set_exception(error)
