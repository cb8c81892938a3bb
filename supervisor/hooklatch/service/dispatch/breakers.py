"""Which hooks are quarantined.  Knows hooks, their builds and each one's breaker; does not know workers or clocks."""

from __future__ import annotations

from collections.abc import Iterator

from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.core.restarts import Breaker

__all__ = ["Breakers"]


class Breakers:
    """The breakers of hooks whose workers died.

    A breaker belongs to a hook and its build, so that a new version of the file starts without deaths; and to the
    session that registered the hook, if one did, with which it ends.
    """

    def __init__(self) -> None:
        self.all: dict[tuple[str, str, PythonTarget], Breaker] = {}

    def __iter__(self) -> Iterator[Breaker]:
        return iter(self.all.values())

    def of(self, hook: Hook) -> Breaker | None:
        return self.all.get((hook.name, hook.owner, hook.target)) if isinstance(hook.target, PythonTarget) else None

    def knows(self, *hooks: Hook) -> bool:
        """Return whether a worker of one of these hooks has died."""
        return bool(self.all) and any(self.of(hook) is not None for hook in hooks)

    def make(self, hook: Hook) -> Breaker:
        assert isinstance(hook.target, PythonTarget)
        location, build = hook.target.source.location, hook.target.build
        for key in [*self.all]:
            if key[2].source.location == location and key[2].build < build:
                del self.all[key]
        return self.all.setdefault((hook.name, hook.owner, hook.target), Breaker())

    def is_quarantined(self, hook: Hook) -> bool:
        breaker = self.of(hook)
        return breaker is not None and breaker.is_quarantined

    def lift(self, name: str) -> None:
        """Forget the deaths of one hook."""
        for key in [key for key in self.all if key[0] == name]:
            del self.all[key]

    def forget(self, owner: str) -> None:
        """Forget the deaths of what a session registered, once it has ended."""
        for key in [key for key in self.all if key[1] == owner]:
            del self.all[key]

    def clear(self) -> None:
        self.all.clear()
