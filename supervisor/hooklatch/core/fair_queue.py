"""A fair queue.  Knows keys and entries; has no clock.

A `FairQueue` keeps one FIFO line of entries per key.  Two rings of keys decide which key is next (as in fq_codel, RFC
8290):

              put, key unknown                     take
    (none)   ─────────────────▶ newcomers ────────────────────▶ regulars ─┐ take: to the end of the ring, even if
                                                                   ▲──────┘ its line is now empty
                                   a regular whose turn finds its line empty is forgotten

So a key with rare entries goes before keys with a constant backlog, and a key that returns within a full round waits
for its turn as a regular.  Newcomers cannot starve regulars: after `FAVOURS` newcomers in a row, a waiting regular is
next.

When the queue is full, the longest line loses its newest entry, unless the new entry's own line would become as long
as that line then is: the busiest key is refused first, and no entry is evicted for one with no better claim.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Hashable
from typing import Generic, TypeVar

import msgspec

__all__ = ["FairQueue"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
FAVOURS = 4  # consecutive newcomers before a regular is served


class FairQueue(msgspec.Struct, Generic[K, T], eq=False):
    """A bounded queue that serves all keys equally."""

    capacity: int
    count: int = 0
    _lines: dict[K, deque[T]] = {}
    # OrderedDict: repeatedly removing the first key of a plain dict gets slower each time.
    _newcomers: OrderedDict[K, None] = msgspec.field(default_factory=OrderedDict[K, None])
    _regulars: OrderedDict[K, None] = msgspec.field(default_factory=OrderedDict[K, None])
    _by_length: dict[int, OrderedDict[K, None]] = {}
    _longest: int = 0
    _favours: int = 0

    def __len__(self) -> int:
        return self.count

    def waiting(self, key: K) -> int:
        line = self._lines.get(key)
        return len(line) if line is not None else 0

    def is_regular(self, key: K) -> bool:
        """Return whether a key was served within the last round."""
        return key in self._regulars

    def ahead(self, key: K) -> int:
        """Return a lower bound on the entries that would be taken before a new one of this key."""
        if key not in self._lines:
            return len(self._newcomers)
        own = self.waiting(key)
        return sum(min(length, own) * len(keys) for length, keys in self._by_length.items())

    def put(self, key: K, entry: T) -> T | None:
        """Add an entry; return the entry that is evicted, which may be this one, or None."""
        evicted: T | None = None
        if self.count >= self.capacity:
            if self._longest < self.waiting(key) + 2:
                return entry
            victim = next(reversed(self._by_length[self._longest]))
            evicted = self._lines[victim].pop()
            self._update_length(victim, self._longest, self._longest - 1)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = deque()
            self._newcomers[key] = None
        line.append(entry)
        self._update_length(key, len(line) - 1, len(line))
        return evicted

    def take(self, skip: Container[K] = (), *, newcomers_only: bool = False) -> T | None:
        """Return the next entry, or None; keys in `skip` keep their position."""
        self._forget_idle()
        newcomer = next((key for key in self._newcomers if key not in skip), None)
        regular = None
        if not newcomers_only and (newcomer is None or self._favours >= FAVOURS):
            regular = next((key for key in self._regulars if self._lines[key] and key not in skip), None)
        if regular is not None:
            self._favours = 0
            return self._serve(regular)
        if newcomer is None:
            return None
        self._favours += 1
        return self._serve(newcomer)

    def remove(self, key: K, entry: T) -> bool:
        """Remove an entry from anywhere in its line; return whether it was there."""
        line = self._lines.get(key)
        if line is None or entry not in line:
            return False
        line.remove(entry)
        if not line and key in self._newcomers:  # it leaves unserved; a regular keeps its position in the ring
            del self._newcomers[key], self._lines[key]
        self._update_length(key, len(line) + 1, len(line))
        return True

    def _serve(self, key: K) -> T:
        line = self._lines[key]
        entry = line.popleft()
        self._newcomers.pop(key, None)
        self._regulars[key] = None
        self._regulars.move_to_end(key)
        self._update_length(key, len(line) + 1, len(line))
        return entry

    def _forget_idle(self) -> None:
        """Forget regulars at the front of the ring that have no entries."""
        while self._regulars:
            key = next(iter(self._regulars))
            if self._lines[key]:
                break
            del self._regulars[key], self._lines[key]
        if len(self._lines) > 2 * self.capacity:  # idle regulars accumulate behind a key that is always skipped
            for key in [key for key in self._regulars if not self._lines[key]]:
                del self._regulars[key], self._lines[key]

    def _update_length(self, key: K, old: int, new: int) -> None:
        self.count += new - old
        if old:
            keys = self._by_length[old]
            del keys[key]
            if not keys:
                del self._by_length[old]
        if new:
            self._by_length.setdefault(new, OrderedDict())[key] = None
        if new > self._longest or (old == self._longest and old not in self._by_length):
            self._longest = new  # lines change by one: if no other is as long, this one is among the longest
        if not self.count:  # nothing waits, so there is no round
            self._lines.clear()
            self._newcomers.clear()
            self._regulars.clear()
