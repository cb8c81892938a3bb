"""The runner of hooks in this process, for breakpoints and for speed.  Knows functions; knows no worker and no daemon.

The hooks are made from the marks on the functions as the daemon makes them from a source, matched and combined by the
same code, and called by the code that calls them in a worker.  Only processes have a deadline, limits, isolation, and a
death that the test survives, so these are missing here.
"""

from __future__ import annotations

import itertools
import sys
import time
from bdb import BdbQuit
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from mmap import mmap
from types import FunctionType, ModuleType
from typing import Any, TypeAlias, cast

import msgspec

from hooklatch.core import decision as decisions
from hooklatch.core import phases
from hooklatch.core.call import Call
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, define_marked_hook
from hooklatch.core.hooks.matchers import UnreadableFieldError
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget, find_misfit
from hooklatch.core.hooks.snapshots import EventHooks, Snapshot
from hooklatch.core.messages import CallOutcome, Cause, FireDecision
from hooklatch.core.payload import Payload
from hooklatch.testing.events import find_event_spec, read_envelope
from hooklatch.testing.memory import Memory, MemoryLine, find_source_file
from hooklatch.testing.results import Result
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import CapturedOutput
from hooklatch_worker.author.event import ENVELOPE, Event
from hooklatch_worker.author.failures import AuthorFrames
from hooklatch_worker.author.marker import MarkedEvent
from hooklatch_worker.runtime.calls import Caller, CallLine

__all__ = ["InProcess", "NotAHookError", "call_here"]

Function: TypeAlias = Callable[..., Any]
PASSED_ON = (KeyboardInterrupt, BdbQuit)  # raised by the person at the terminal, not by a hook
CAUSES: dict[str, Cause] = {"": "policy", "protocol": "protocol", "timeout": "timeout", "load": "load"}


class NotAHookError(TypeError):
    """An object that is not a hook of this event."""


class UncapturedOutput:
    """The output of hooks, left where it goes: to the terminal, or to pytest, which shows it where a test fails."""

    def take(self) -> CapturedOutput:
        """Return nothing."""
        return CapturedOutput()


class TracedFunction:
    """A function that keeps its last exception, for a debugger."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.__code__ = getattr(function, "__code__", None)
        self.error: BaseException | None = None

    def __call__(self, event: Event) -> object:
        self.error = None
        try:
            answer = self._function(event)
        except BaseException as error:
            self.error = error
            raise
        return self._await_answer(answer) if hasattr(answer, "__await__") else answer

    async def _await_answer(self, answer: Any) -> object:
        try:
            return await answer
        except BaseException as error:
            self.error = error
            raise


class InProcess:
    """Hooks that run in this process: a function, several, or all that a module marks."""

    def __init__(self, hooks: Function | ModuleType | Iterable[Function], *, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self._functions = list_functions(hooks)

    @property
    def title(self) -> str:
        return ", ".join(getattr(function, "__name__", repr(function)) for function in self._functions)

    def run(self, event: Event) -> Result:
        """Fire an event at the hooks, and return the decision.

        Raises:
            NotAHookError: none of them is a hook of this event.
        """
        spec, fire = find_event_spec(event), InProcessFire(event, self.memory)
        hooks = [hook for function in self._functions for hook in fire.hooks_of(function)]
        if not hooks:
            marked = sorted({marker.event for function in self._functions for marker in list_markers(function)})
            raise NotAHookError(f"{self.title} is not a hook of {spec.name}, but of {', '.join(marked)}")
        chain = Snapshot(0, hooks).chain(spec)
        decision = fire.decide(chain)
        called = {outcome.hook for outcome in decision.outcomes}
        notes = tuple(fire.explain_uncalled(hook, chain) for hook in hooks if hook.id not in called)
        return Result(decision=decision, error=fire.error, notes=notes)


class InProcessFire:
    """One event on its way through hooks of this process."""

    def __init__(self, event: Event, memory: Memory) -> None:
        self._event, self._memory = event, memory
        self._numbers = itertools.count(1)
        self._functions: dict[Hook, Function] = {}
        self._lines: dict[str, MemoryLine] = {}
        envelope = read_envelope(event)
        self._envelope = {key: envelope.get(key) for key in sorted(ENVELOPE)} | {"event": event.event}
        self._payload = Payload(msgspec.json.encode(event.payload))
        self.error: BaseException | None = None

    def explain_uncalled(self, hook: Hook, chain: EventHooks) -> str:
        """Return why a hook was not called, for the reader of a failed test."""
        if hook not in chain.matching(self._payload).hooks:
            return f"{hook.id} was not called: it matches {hook.matcher.text} on {chain.spec.match}"
        with suppress(UnreadableFieldError):
            where = hook.where
            facts = where.read(chain.spec, self._payload, self._envelope["cwd"]) if where is not None else None
            if where is not None and facts is not None and (failing := where.find_failing(facts)) is not None:
                return f"{hook.id} was not called: its condition does not hold: {failing}"
        return f"{hook.id} was not called"

    def hooks_of(self, function: Function) -> list[Hook]:
        """Return the hooks of a function on this event; a function without a mark is one hook, as in hooks.toml."""
        spec, markers = find_event_spec(self._event), list_markers(function)
        if not markers:
            markers = (MarkedEvent(event=spec.name),)
        hooks: list[Hook] = []
        for marker in markers:
            if marker.event != spec.name or not marker.enabled:
                continue
            hook = bind_function(function, marker, has_siblings=len(markers) > 1)
            if (fault := hook.problem or find_misfit(
                spec, hook.matcher, hook.where, amends=hook.amends, only_judges=hook.only_judges
            )) is not None:  # fmt: skip
                raise NotAHookError(f"{hook.id}: {fault}")
            self._functions[hook] = function
            hooks.append(hook)
        return hooks

    def decide(self, chain: EventHooks) -> FireDecision:
        """Call the hooks that match, and combine what they answer."""
        began, spec = time.monotonic(), chain.spec
        payload, folder = self._payload, self._envelope["cwd"]
        context: dict[str, Any] = read_envelope(self._event).get("context") or {}
        selection = chain.select(payload, folder)
        if selection.fault and spec.fails_closed:
            return decisions.refuse_fire(
                spec, "payload", selection.fault, decision_id="test", revision=0, payload=payload
            )
        machine = phases.start_machine(chain, selection, payload, context, folder)
        while calls := machine.next_calls():
            for call in calls:
                machine.receive(call, self._call(call))
        return machine.decide(decision_id="test", revision=0, duration_ms=round((time.monotonic() - began) * 1000, 3))

    def _call(self, call: Call) -> CallOutcome:
        hook, target = call.hook, call.hook.target
        assert isinstance(target, PythonTarget)
        source = target.source.location
        line = self._lines.get(source)
        if line is None:
            line = self._lines[source] = MemoryLine(self._memory, source, self._envelope["session_id"])
        line.function = hook.id
        outcome, raised = call_here(
            self._functions[hook], call, line, path=source, number=next(self._numbers),
            spec=find_event_spec(self._event),
            envelope=self._envelope | {"context": call.context},
            config=msgspec.json.encode(self._event.config) if self._event.config else hook.config,
        )  # fmt: skip
        if raised is not None:
            self.error = raised.with_traceback(AuthorFrames(source).first_trace(raised))
        return outcome


def call_here(
    function: Function,
    call: Call,
    line: CallLine,
    *,
    path: str,
    number: int,
    spec: EventSpec,
    envelope: object,
    config: bytes,
) -> tuple[CallOutcome, BaseException | None]:
    """Call a hook's function as a worker does, and return the outcome with the exception of a failure.

    `path` is its file, `number` that of the call, and `line` takes its requests to shared state.
    """
    hook, target = call.hook, call.hook.target
    assert isinstance(target, PythonTarget)
    traced = TracedFunction(function)
    caller = Caller({target.function: traced}, path, UncapturedOutput(), line, mmap(-1, wire.PROGRESS_BYTES), [])
    message = wire.RunCall(
        0, number, hook.timeout or spec.timeout, target.function, spec.name, memoryview(call.payload.data),
        msgspec.json.encode(envelope), config, msgspec.json.encode(call.merged) if call.merged else b"",
        call.reinvoked, target.runtime, bool(target.native),
    )  # fmt: skip
    began = time.monotonic()
    answered = run_in_thread(partial(caller.run, message)) if is_in_event_loop() else caller.run(message)
    if isinstance(traced.error, PASSED_ON):
        raise traced.error
    outcome = CallOutcome(
        cause=CAUSES.get(answered.cause, "crash"), message=answered.message,
        answer=b"" if answered.cause else answered.answer, traceback=answered.traceback,
    )  # fmt: skip
    return outcome.with_duration(time.monotonic() - began), traced.error if answered.cause else None


def is_in_event_loop() -> bool:
    """Return whether this thread runs an event loop, so that a callback cannot have one of its own here."""
    asyncio, trio = sys.modules.get("asyncio"), sys.modules.get("trio")
    return (asyncio is not None and asyncio._get_running_loop() is not None) or (
        trio is not None and trio.lowlevel.in_trio_run()
    )


def run_in_thread(run: Callable[[], wire.CallAnswered | wire.CallSilent]) -> wire.CallAnswered | wire.CallSilent:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def list_functions(hooks: Function | ModuleType | Iterable[Function]) -> list[Function]:
    if isinstance(hooks, ModuleType):
        marked = [value for value in vars(hooks).values() if isinstance(value, FunctionType) and list_markers(value)]
        if not marked:
            raise NotAHookError(f"{hooks.__name__} marks no function with @hook")
        return list(marked)
    if callable(hooks):
        return [hooks]
    given = cast("object", hooks)  # a text is iterable, too
    functions = list(hooks) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else []
    if not functions or not all(callable(function) for function in functions):
        ways = (
            "give a function, several, or a module that marks some; for a file: Worker or the fixture hooklatch_worker"
        )
        raise NotAHookError(f"{given!r:.80} is not a hook; {ways}")
    return functions


def list_markers(function: Function) -> tuple[MarkedEvent, ...]:
    markers: tuple[MarkedEvent, ...] = getattr(function, "__hooklatch_markers__", ())
    return markers


def bind_function(function: Function, marker: MarkedEvent, *, has_siblings: bool) -> Hook:
    name = getattr(function, "__name__", "hook")
    stem = getattr(function, "__module__", "") or "hooks"
    try:
        definition = define_marked_hook(
            marker, stem=stem.rpartition(".")[2], function=name, line=0, has_siblings=has_siblings
        )
    except InvalidHookError as error:
        raise NotAHookError(str(error)) from None
    return make_in_process_hook(definition, find_source_file(function), name, marker.runtime)


def make_in_process_hook(definition: HookDefinition, file: str, function: str, runtime: str) -> Hook:
    target = PythonTarget(wire.Source("file", file), 0, function, runtime)
    return Hook(
        id=definition.id, event=definition.event, layer=Layer.GLOBAL, matcher=definition.matcher,
        where=definition.where, target=target,
        timeout=definition.timeout, priority=definition.priority, observe=definition.observe,
        optional=definition.optional, amends=definition.amends, only_judges=definition.only_judges,
        description=definition.description, config=definition.config, problem=definition.problem,
    )  # fmt: skip
