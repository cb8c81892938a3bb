"""The breakers of hooks, and the hooks that they quarantine.  Knows hooks and builds, but no clock and no worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.core.restarts import Breaker

__all__ = ["Breakers"]

Key: TypeAlias = tuple[str, str, PythonTarget]  # a hook's name, the session that registered it, and its build


class Breakers:
    """The breakers of hooks whose workers died.

    A breaker belongs to a hook and its build, so that a new version of the file starts without deaths; and to the
    session that registered the hook, if one did, with which it ends.

    `on_release` is called for each quarantine that ends, with the hook's name and the reason.
    """

    def __init__(self, on_release: Callable[[str, str], None]) -> None:
        self.all: dict[Key, Breaker] = {}
        self._on_release = on_release
        self._quarantined: dict[Key, None] = {}

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
        # Nothing else removes the breakers of older builds: their hooks are not called any more.
        for key in [*self.all]:
            if key[2].source.location == location and key[2].build < build:
                del self.all[key]
                self._quarantined.pop(key, None)
        return self.all.setdefault((hook.name, hook.owner, hook.target), Breaker())

    def record_death(self, hook: Hook, now: float, message: str) -> bool:
        """Record that a hook has killed its worker; return whether that quarantined it just now."""
        assert isinstance(hook.target, PythonTarget)
        is_quarantined = self.make(hook).record_death(now, message)
        if is_quarantined:
            self._quarantined[hook.name, hook.owner, hook.target] = None
        return is_quarantined

    def record_answer(self, hook: Hook) -> None:
        """Record a call that ended without killing its worker."""
        breaker = self.of(hook)
        if breaker is not None and breaker.record_answer() and isinstance(hook.target, PythonTarget):
            self._release([(hook.name, hook.owner, hook.target)], "it has answered a probe")

    def release_replaced(self, location: str, build: int) -> None:
        """End the quarantines of a source's older builds: the hooks of the new one start without deaths."""
        keys = [key for key in self._quarantined if key[2].source.location == location and key[2].build < build]
        self._release(keys, "a new version of its file is active")

    def is_quarantined(self, hook: Hook) -> bool:
        breaker = self.of(hook)
        return breaker is not None and breaker.is_quarantined

    def lift(self, name: str) -> None:
        """Forget the deaths of one hook."""
        keys = [key for key in self.all if key[0] == name]
        for key in keys:
            del self.all[key]
        self._release(keys, "an operator has enabled it")

    def forget(self, owner: str) -> None:
        """Forget the deaths of the hooks that a session registered, once it has ended."""
        keys = [key for key in self.all if key[1] == owner]
        for key in keys:
            del self.all[key]
        self._release(keys, "its session has ended")

    def clear(self, location: str | None = None) -> None:
        """Forget the deaths of a source's hooks, or all of them."""
        keys = [key for key in self.all if location in (None, key[2].source.location)]
        for key in keys:
            del self.all[key]
        self._release(keys, "an operator has reloaded")

    def _release(self, keys: Iterable[Key], reason: str) -> None:
        for key in keys:
            if key in self._quarantined:
                self._quarantined.pop(key, None)
                self._on_release(key[0], reason)
