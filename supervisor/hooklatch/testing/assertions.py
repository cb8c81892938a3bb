"""Assertions on the decisions of hooks, and the fixture `hooks`.  A failure shows the actual decision and its reasons.

A hook is a function, a module or several functions, which run in this process; or a `Worker`, or one hook of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Protocol, TypeAlias

from hooklatch.testing.events import event
from hooklatch.testing.in_process import InProcess
from hooklatch.testing.memory import Memory
from hooklatch.testing.results import Result
from hooklatch_worker.author.event import Event

__all__ = [
    "assert_allows", "assert_amends", "assert_asks", "assert_denies", "assert_fails", "assert_passes", "run",
    "HookTester",
]  # fmt: skip


class FireTarget(Protocol):
    """The target of a fire: hooks in this process, or in a worker."""

    @property
    def title(self) -> str: ...

    def run(self, event: Event) -> Result: ...


Hooks: TypeAlias = Callable[..., Any] | ModuleType | Iterable[Callable[..., Any]] | FireTarget


def run(hook: Hooks, event: Event, *, memory: Memory | None = None) -> Result:
    """Fire an event at a hook, and return any decision.

    `memory` holds the shared state of hooks of this process; without it, their state is empty.

    Raises:
        NotAHookError: it is not a hook of this event.
    """
    return find_fire_target(hook, memory).run(event)


def assert_denies(hook: Hooks, event: Event, *, reason: str = "", memory: Memory | None = None) -> Result:
    """Assert that the hook refuses, by its own words and not by failing, and that `reason` is part of these."""
    __tracebackhide__ = True
    return assert_verdict(hook, event, memory, "deny", ("deny", "halt"), reason=reason)


def assert_asks(hook: Hooks, event: Event, *, reason: str = "", memory: Memory | None = None) -> Result:
    """Assert that the hook leaves the decision to a person, and that `reason` is part of its words."""
    __tracebackhide__ = True
    return assert_verdict(hook, event, memory, "ask", ("ask",), reason=reason)


def assert_allows(hook: Hooks, event: Event, *, reason: str = "", memory: Memory | None = None) -> Result:
    """Assert that the hook approves explicitly, which is more than having no objection."""
    __tracebackhide__ = True
    return assert_verdict(hook, event, memory, "allow", ("allow",), reason=reason)


def assert_passes(hook: Hooks, event: Event, *, memory: Memory | None = None) -> Result:
    """Assert that the hook does not object, and did not fail either, which an event without refusals would hide."""
    __tracebackhide__ = True
    return assert_verdict(hook, event, memory, "pass", ("pass", "allow"))


def assert_amends(
    hook: Hooks, event: Event, patch: dict[str, Any] | None = None, *, memory: Memory | None = None
) -> Result:
    """Assert that the hook does not refuse and changes the payload; with a `patch`, these keys to these values."""
    __tracebackhide__ = True
    result = assert_verdict(hook, event, memory, "amend", ("pass", "allow"))
    title = find_fire_target(hook, memory).title
    if not result.patch:
        raise make_assertion_error(title, event, result, "changes nothing")
    for key, value in (patch or {}).items():
        if key not in result.patch:
            raise make_assertion_error(title, event, result, f"does not change {key!r}")
        if result.patch[key] != value:
            raise make_assertion_error(
                title, event, result, f"changes {key!r} to {result.patch[key]!r}, not to {value!r}"
            )
    return result


def assert_fails(hook: Hooks, event: Event, *, cause: str = "crash", memory: Memory | None = None) -> Result:
    """Assert that the hook fails for this cause, such as `crash` or `timeout`: at a gate that is a denial."""
    __tracebackhide__ = True
    runner = find_fire_target(hook, memory)
    result = runner.run(event)
    if cause not in [failure.cause for failure in result.failures]:
        raise make_assertion_error(runner.title, event, result, f"does not fail with cause {cause!r}")
    return result


def assert_verdict(
    hook: Hooks, event: Event, memory: Memory | None, word: str, verdicts: tuple[str, ...], *, reason: str = ""
) -> Result:
    __tracebackhide__ = True
    runner = find_fire_target(hook, memory)
    result = runner.run(event)
    if result.failures:
        raise make_assertion_error(runner.title, event, result, f"does not {word}: it fails")
    if result.verdict not in verdicts or (result.verdict not in ("pass", "allow") and result.cause != "policy"):
        raise make_assertion_error(runner.title, event, result, f"does not {word}")
    if reason not in result.reason:
        raise make_assertion_error(runner.title, event, result, f"gives another reason than {reason!r}")
    return result


def make_assertion_error(title: str, event: Event, result: Result, text: str) -> AssertionError:
    fields = ", ".join(f"{key}={value!r:.200}" for key, value in event.payload.items() if key != "tool_args")
    lines = [("event", f"{event.event}: {fields}"), *result.explained()]
    indented = [
        f"  {label if not number else '':<9}{line}"
        for label, text in lines
        for number, line in enumerate(text.splitlines())
    ]
    error = AssertionError("\n".join([f"{title} {text}", *indented]))
    error.__cause__ = result.error  # with its traceback
    return error


def find_fire_target(hook: Hooks, memory: Memory | None) -> FireTarget:
    run_method = getattr(hook, "run", None)
    if not isinstance(hook, ModuleType) and callable(run_method) and hasattr(hook, "title"):
        runs: Any = hook
        return runs  # type: ignore[no-any-return]  # it has the shape of the protocol, as was just seen
    return InProcess(hook, memory=memory)  # type: ignore[arg-type]  # of the union, only functions and modules are left


class HookTester:
    """A tester of hooks; all hooks that it runs in this process share `memory`."""

    event = staticmethod(event)

    def __init__(self) -> None:
        self.memory = Memory()

    def run(self, hook: Hooks, event: Event) -> Result:
        """Fire an event at a hook, and return any decision."""
        return run(hook, event, memory=self.memory)

    def assert_denies(self, hook: Hooks, event: Event, *, reason: str = "") -> Result:
        """Assert that the hook refuses by its own words, of which `reason` is a part."""
        __tracebackhide__ = True
        return assert_denies(hook, event, reason=reason, memory=self.memory)

    def assert_asks(self, hook: Hooks, event: Event, *, reason: str = "") -> Result:
        """Assert that the hook leaves the decision to a person."""
        __tracebackhide__ = True
        return assert_asks(hook, event, reason=reason, memory=self.memory)

    def assert_allows(self, hook: Hooks, event: Event, *, reason: str = "") -> Result:
        """Assert that the hook approves explicitly."""
        __tracebackhide__ = True
        return assert_allows(hook, event, reason=reason, memory=self.memory)

    def assert_passes(self, hook: Hooks, event: Event) -> Result:
        """Assert that the hook does not object, and did not fail."""
        __tracebackhide__ = True
        return assert_passes(hook, event, memory=self.memory)

    def assert_amends(self, hook: Hooks, event: Event, patch: dict[str, Any] | None = None) -> Result:
        """Assert that the hook changes the payload; with a `patch`, these keys to these values."""
        __tracebackhide__ = True
        return assert_amends(hook, event, patch, memory=self.memory)

    def assert_fails(self, hook: Hooks, event: Event, *, cause: str = "crash") -> Result:
        """Assert that the hook fails for this cause."""
        __tracebackhide__ = True
        return assert_fails(hook, event, cause=cause, memory=self.memory)
