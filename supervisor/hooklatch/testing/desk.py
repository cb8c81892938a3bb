"""The value of the fixture `hooks`: events and assertions with one memory between them."""

from __future__ import annotations

from typing import Any

from hooklatch.testing import assertions
from hooklatch.testing.assertions import Hooks
from hooklatch.testing.events import event
from hooklatch.testing.memory import Memory
from hooklatch.testing.results import Result
from hooklatch_worker.author.event import Event

__all__ = ["HookTester"]


class HookTester:
    """A tester of hooks; all hooks that it runs in this process share `memory`."""

    event = staticmethod(event)

    def __init__(self) -> None:
        self.memory = Memory()

    def run(self, hook: Hooks, event: Event) -> Result:
        """Fire an event at a hook, and return any decision."""
        return assertions.run(hook, event, memory=self.memory)

    def assert_denies(self, hook: Hooks, event: Event, *, reason: str = "") -> Result:
        """Assert that the hook refuses by its own words, of which `reason` is a part."""
        __tracebackhide__ = True
        return assertions.assert_denies(hook, event, reason=reason, memory=self.memory)

    def assert_asks(self, hook: Hooks, event: Event, *, reason: str = "") -> Result:
        """Assert that the hook leaves the decision to a person."""
        __tracebackhide__ = True
        return assertions.assert_asks(hook, event, reason=reason, memory=self.memory)

    def assert_allows(self, hook: Hooks, event: Event, *, reason: str = "") -> Result:
        """Assert that the hook approves explicitly."""
        __tracebackhide__ = True
        return assertions.assert_allows(hook, event, reason=reason, memory=self.memory)

    def assert_passes(self, hook: Hooks, event: Event) -> Result:
        """Assert that the hook does not object, and did not fail."""
        __tracebackhide__ = True
        return assertions.assert_passes(hook, event, memory=self.memory)

    def assert_amends(self, hook: Hooks, event: Event, patch: dict[str, Any] | None = None) -> Result:
        """Assert that the hook changes the payload; with a `patch`, these keys to these values."""
        __tracebackhide__ = True
        return assertions.assert_amends(hook, event, patch, memory=self.memory)

    def assert_fails(self, hook: Hooks, event: Event, *, cause: str = "crash") -> Result:
        """Assert that the hook fails for this cause."""
        __tracebackhide__ = True
        return assertions.assert_fails(hook, event, cause=cause, memory=self.memory)
