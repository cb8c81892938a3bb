"""The runners that fire cases at a daemon of their own, one after another, as an agent would.

The daemon is in this process, in temporary directories (`hooklatch.testing.daemon`).  Its hooks run in workers, or
beside this process (`in_process`).

    run_with_daemon(CaseRunner(cases, report).fire_all, config)
"""

from __future__ import annotations

import math
from bdb import BdbQuit
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

import msgspec

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.text import format_count

if TYPE_CHECKING:
    from hooklatch.cli.testing.cases import Case
    from hooklatch.core.fire_params import FireParams
    from hooklatch.core.hooks.catalogue import Catalogue
    from hooklatch.core.hooks.registry import Hook
    from hooklatch.core.messages import FireDecision
    from hooklatch.service.dispatch.dialects import DialectDispatcher
    from hooklatch.service.dispatch.dispatcher import Dispatcher
    from hooklatch.service.folders import DaemonOptions
    from hooklatch.service.parts import DaemonComponents

__all__ = ["FireRunner", "CaseResult", "CaseRunner", "decide_fire", "report_waiting", "run_with_daemon"]

FIRST_REPORT = 1.0  # seconds before the first report of a long step; the interval then doubles


class CaseResult(msgspec.Struct, frozen=True):
    """The result of one case; `matched` are the hooks whose matcher accepts it, without regard to their conditions."""

    case: Case
    decision: FireDecision
    differences: list[str]
    matched: tuple[Hook, ...] = ()

    @property
    def failures(self) -> list[str]:
        """Return a text for each hook that failed, also where the decision did not depend on it."""
        return [
            f"{read_full_name(outcome.layer, outcome.hook, outcome.name)} failed ({outcome.cause}): {outcome.message}"
            for outcome in self.decision.outcomes
            if outcome.cause not in (None, "policy")
        ]


class FireRunner:
    """A runner that starts a daemon of its own, reports its progress, and keeps the error that stops it."""

    def __init__(self, count: int, noun: str) -> None:
        self.diagnostics: list[str] = []
        self.warnings: list[str] = []
        self.error: CommandError | None = None
        self.done = 0
        self._total = format_count(count, noun)
        self._doing = "loading the hooks"

    async def fire_all(self, options: DaemonOptions) -> None:
        """Start a daemon, fire everything at it, and end it."""
        import trio

        from hooklatch.service.daemon import open_daemon
        from hooklatch.service.folders import StartError

        async with trio.open_nursery() as nursery:
            nursery.start_soon(report_waiting, self.describe)
            try:
                async with open_daemon(options) as daemon:
                    await self.load(daemon.parts)
                    await self.fire_each(daemon.parts)
                    self._doing = "ending the workers"
            except StartError as error:
                self.error = CommandError(Exit.UNAVAILABLE, f"hooks cannot be run here: {error}")
            nursery.cancel_scope.cancel()

    def describe(self) -> str:
        """Return what is being done."""
        return f"{self.done} of {self._total} done, {self._doing}"

    async def load(self, parts: DaemonComponents) -> None:
        """Wait until the hooks are loaded, and note their diagnostics."""
        from hooklatch.testing.daemon import settle_environments

        if parts.environments.is_making:
            self._doing = "making environments"
            await settle_environments(parts)
        self.diagnostics = [str(diagnostic) for diagnostic in parts.reloader.active.diagnostics]
        self.warnings = [
            str(warning) for warning in (*parts.reloader.active.unread.warnings, *parts.reloader.active.unread.notes)
        ]

    async def fire_each(self, parts: DaemonComponents) -> None:
        """Fire the runner's cases or decisions one after another."""
        raise NotImplementedError


class CaseRunner(FireRunner):
    """A runner of cases.

    `open_dispatcher` opens the dispatcher that decides, if it is not the daemon's own, and adds its faults to a list at
    its end.  `active` are the hooks that decide.
    """

    def __init__(
        self,
        cases: list[Case],
        report: Callable[[CaseResult], None],
        *,
        open_dispatcher: Callable[
            [DaemonComponents, list[str]], AbstractAsyncContextManager[tuple[Dispatcher, DialectDispatcher]]
        ]
        | None = None,
    ) -> None:
        super().__init__(len(cases), "case")
        self.results: list[CaseResult] = []
        self.active: list[Hook] = []
        self.catalogue: Catalogue | None = None  # until the hooks are loaded
        self._cases = cases
        self._report = report
        self._open_dispatcher = open_dispatcher

    @property
    def failed(self) -> int:
        return sum(bool(result.differences) for result in self.results)

    async def fire_each(self, parts: DaemonComponents) -> None:
        self.catalogue = parts.registries.catalogue
        self.active = [hook for hook in parts.registries.view.hooks if hook.enabled]
        try:
            for case in self._cases:
                check_case(case, parts)
        except CommandError as error:
            self.error = error
            return
        own = nullcontext((parts.dispatcher, parts.native))
        opened = self._open_dispatcher(parts, self.diagnostics) if self._open_dispatcher is not None else own
        async with opened as dispatchers:
            await self._fire_cases(parts, dispatchers)

    async def _fire_cases(self, parts: DaemonComponents, dispatchers: tuple[Dispatcher, DialectDispatcher]) -> None:
        file = None
        for case in self._cases:
            self._doing = f"running {case.name!r}"
            if case.file != file:
                file = case.file
                parts.shared_state.clear()  # each file starts with empty state
            decision = await decide_fire(case.params, parts, *dispatchers)
            # Cases are independent: a hook that died in earlier ones must not be quarantined in this one.
            parts.breakers.clear()
            matched = select_matching_hooks(case.params, decision.event, parts)
            self.results.append(CaseResult(case, decision, case.expected.differences(decision), matched))
            self.done = len(self.results)
            self._report(self.results[-1])


def select_matching_hooks(params: FireParams, event: str, parts: DaemonComponents) -> tuple[Hook, ...]:
    """Return the hooks of an event whose matcher accepts the payload; none if that cannot be read."""
    from hooklatch.core.payload import Payload, PayloadError
    from hooklatch.dialects.translation import translate_to_canonical

    data = bytes(params.payload)
    try:
        if params.dialect is not None:
            dialect = parts.dialects.find(params.dialect)
            data = msgspec.json.encode(
                translate_to_canonical(dialect, params.event, msgspec.json.decode(data))[0].payload
            )
        chain = parts.registries.view.chain(parts.registries.catalogue[event])
        return chain.matching(Payload(data)).hooks
    except PayloadError:
        return ()


async def report_waiting(describe: Callable[[], str]) -> None:
    """Print after a second, then after two, four, …, what is being done; until cancelled."""
    import trio

    wait = FIRST_REPORT
    while True:
        await trio.sleep(wait)
        output.print_error(f"{describe()} …")
        wait *= 2


def run_with_daemon(
    function: Callable[[DaemonOptions], Coroutine[object, object, None]], config: str | None = None, *,
    files: Sequence[str] = (), settings: str = "", load_seconds: float = math.inf,
) -> None:  # fmt: skip
    """Run an async function with the options of a daemon of its own, in a temporary directory.

    Its hooks are those of a `config`, or of Python `files`, under these `settings` in TOML.  Ctrl-C ends it, also in a
    debugger, as it ends any command.
    """
    import trio

    from hooklatch.testing import daemon

    try:
        daemon.check_system()
        with daemon.make_scratch_folder() as scratch:
            path = config if config is not None else daemon.write_source_config(files, scratch, settings=settings)
            options = daemon.make_daemon_options(path, scratch)
            trio.run(function, msgspec.structs.replace(options, load_seconds=load_seconds))
    except daemon.NotHereError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None
    except BdbQuit:
        raise KeyboardInterrupt from None
    except BaseExceptionGroup as group:
        if group.subgroup((KeyboardInterrupt, BdbQuit)) is not None:
            raise KeyboardInterrupt from None
        raise


def check_case(case: Case, parts: DaemonComponents) -> None:
    """Reject a case that can never pass."""
    from hooklatch.cli.testing.cases import find_case_problem
    from hooklatch.core.protocol import RpcError

    name, event = case.params.dialect, case.params.event
    try:
        event = parts.native.canonical_name(parts.dialects.find(name), event) if name is not None else event
    except RpcError as error:
        raise CommandError(Exit.BAD_DATA, f"{case.place}: {error.message}") from None
    problem = find_case_problem(case, event, parts.registries.catalogue)
    if problem is not None:
        raise CommandError(Exit.BAD_DATA, problem)


async def decide_fire(
    params: FireParams, parts: DaemonComponents, dispatcher: Dispatcher, native: DialectDispatcher
) -> FireDecision:
    """Decide a fire; refuse a payload that can be read in two ways, as a daemon does before it dispatches."""
    from hooklatch_worker.author.ambiguity import find_ambiguity

    fault = find_ambiguity(bytes(params.payload))
    if params.dialect is not None:
        return (await native.decide(parts.dialects.find(params.dialect), params, None, fault))[0]
    if fault is not None:
        return await dispatcher.refuse(dispatcher.registries.find_event(params.event), "payload", fault, params, None)
    return await dispatcher.fire(params, None)
