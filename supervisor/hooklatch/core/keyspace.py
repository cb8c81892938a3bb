"""What sources remember between calls: values by key, bounded, each step atomic.  Knows no file, worker or clock.

    a place     whose value it is: a source's, in one layer or project; of all sessions or of one
    a step      planned first (`plan` changes nothing), then taken (`take`): between them it can be written down
    an end      a key's own, by its ttl; a scope's, when its session ends or nobody has used it for `linger` seconds

Nothing is forgotten to make room: what does not fit is refused.  Only what has ended is dropped, and that lazily.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from hooklatch_worker.author.state import MAX_KEY, MAX_TTL, MAX_VALUE, Asked

__all__ = [
    "MAX_BYTES", "MAX_KEYS", "MAX_TOTAL", "Entry", "GarbageStepError", "Keyspace", "Namespace", "Place", "Planned",
    "RefusedStepError", "Usage", "session_scope",
]  # fmt: skip

MAX_KEYS = 10_000  # of one account
MAX_BYTES = 4 * 2**20  # of one account
MAX_TOTAL = 16 * 2**20  # bytes of all of them
OVERHEAD = 256  # bytes that a key costs beside its own and its value's, about
COUNTERS = range(-(2**63), 2**63)  # what readers of JSON agree on
LIVE, CLAIMED = "=", "?"  # how the scope of a session begins
NUMBER: msgspec.json.Decoder[int | float] = msgspec.json.Decoder(int | float)


class RefusedStepError(Exception):
    """A step that cannot be done: why, and what to do."""


class GarbageStepError(Exception):
    """A step that no worker of ours would ask for."""


class Namespace(msgspec.Struct, frozen=True, order=True):
    """Whose values: a layer, the project, plugin or session within it, and the source's location."""

    layer: str
    within: str
    source: str


class Place(msgspec.Struct, frozen=True):
    """One scope of a namespace: "" for what all sessions share, else what `session_scope` says.

    A `linger` says after how many seconds without use the scope ends.
    """

    namespace: Namespace
    scope: str = ""
    linger: float | None = None


def session_scope(session_id: str, *, is_claimed: bool) -> str:
    """Name a session's scope.

    Those that nobody holds but a one-shot claims are apart, and accounted apart: they reach no live session's values
    and take none of their room.
    """
    return f"{CLAIMED if is_claimed else LIVE}{session_id}"


class Entry(msgspec.Struct, frozen=True):
    """A value as JSON, and the moment at which it ends."""

    value: bytes
    ends_at: float = math.inf


class Planned(msgspec.Struct, frozen=True):
    """What a step gives, and what it changes: an entry, None where it removes the key; `is_change` where it does."""

    result: bytes
    entry: Entry | None = None
    is_change: bool = False


class Usage(msgspec.Struct):
    """What is held, with what has ended and was not dropped yet; before `may_end_at` nothing more ends."""

    keys: int = 0
    bytes: int = 0
    may_end_at: float = 0.0


class Scope:
    __slots__ = ("ends_at", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.ends_at = math.inf


Account = tuple[Namespace, bool]


class Keyspace:
    """All values, by account, scope and key."""

    def __init__(self) -> None:
        self._accounts: dict[Account, dict[str, Scope]] = {}
        self._usage: dict[Account, Usage] = {}
        self.total = Usage()

    def plan(self, place: Place, asked: Asked, now: float) -> Planned:
        """Return what a step gives and changes; nothing is changed yet.

        Raises:
            RefusedStepError: it is over a bound, or not possible on the value that is there.
            GarbageStepError: it is nothing that a worker of ours would ask for.
        """
        check(asked)
        before = self.find(place, asked.key, now)
        planned = STEPS[asked.operation](asked, before, now + asked.ttl if asked.ttl else math.inf)
        if planned.is_change and planned.entry is not None:
            self._check_room(place, asked.key, planned.entry, now)
        return planned

    def find(self, place: Place, key: str, now: float) -> Entry | None:
        """Return a key's entry, unless it has ended; that its scope was looked at prolongs it."""
        scope = self._scope(place, now)
        if scope is None:
            return None
        scope.ends_at = end_of(place, now)
        entry = scope.entries.get(key)
        return entry if entry is not None and entry.ends_at > now else None

    def take(self, place: Place, key: str, entry: Entry | None, now: float) -> None:
        """Put an entry in force, or remove what is there."""
        account = account_of(place)
        scope = self._scope(place, now)
        if scope is None:
            if entry is None:
                return
            scope = self._accounts.setdefault(account, {}).setdefault(place.scope, Scope())
        scope.ends_at = end_of(place, now)
        old = scope.entries.pop(key, None)
        if old is not None:
            self._count(account, -1, -size_of(key, old))
        if entry is not None:
            scope.entries[key] = entry
            self._count(account, 1, size_of(key, entry))
            self._note_end(account, min(entry.ends_at, scope.ends_at))
        elif not scope.entries:
            self._drop(account, place.scope)

    def places_of(self, scope: str) -> list[Place]:
        """Say in which namespaces a scope has values."""
        return [Place(namespace, scope) for (namespace, _), scopes in self._accounts.items() if scope in scopes]

    def end_scope(self, place: Place) -> None:
        """Drop all values of a place."""
        if place.scope in self._accounts.get(account_of(place), {}):
            self._drop(account_of(place), place.scope)

    def end_namespace(self, namespace: Namespace) -> None:
        """Drop all values of a namespace."""
        for account in [account for account in self._accounts if account[0] == namespace]:
            for scope in list(self._accounts[account]):
                self._drop(account, scope)

    def live(self, now: float) -> Iterator[tuple[Place, str, Entry]]:
        """Yield all that has not ended; others may take steps between two of these."""
        for (namespace, _), scopes in list(self._accounts.items()):
            for name, scope in list(scopes.items()):
                place = Place(namespace, name)
                for key, entry in list(scope.entries.items()):
                    if min(entry.ends_at, scope.ends_at) > now:
                        yield place, key, entry

    def usage(self) -> dict[Namespace, Usage]:
        """Return what each namespace holds."""
        found: dict[Namespace, Usage] = {}
        for (namespace, _), usage in self._usage.items():
            one = found.setdefault(namespace, Usage())
            one.keys += usage.keys
            one.bytes += usage.bytes
        return dict(sorted(found.items()))

    def clear(self) -> None:
        self._accounts.clear()
        self._usage.clear()
        self.total = Usage()

    def _scope(self, place: Place, now: float) -> Scope | None:
        account = account_of(place)
        scope = self._accounts.get(account, {}).get(place.scope)
        if scope is not None and scope.ends_at <= now:
            self._drop(account, place.scope)
            return None
        return scope

    def _check_room(self, place: Place, key: str, entry: Entry, now: float) -> None:
        if self._has_room(place, key, entry):
            return
        account = account_of(place)
        self._drop_ended(account, now)
        if not self._has_room(place, key, entry):
            usage = self._usage.get(account, Usage())
            raise RefusedStepError(
                f"there is no room for {key!r}: {place.namespace.source} holds {usage.keys} keys and {usage.bytes}"
                f" bytes (of {MAX_KEYS} and {MAX_BYTES}), all sources {self.total.bytes} (of {MAX_TOTAL}); give keys a"
                " ttl"
            )

    def _has_room(self, place: Place, key: str, entry: Entry) -> bool:
        account = account_of(place)
        usage = self._usage.get(account, Usage())
        old = self._accounts.get(account, {}).get(place.scope, EMPTY).entries.get(key)
        keys, size = int(old is None), size_of(key, entry) - (size_of(key, old) if old is not None else 0)
        # What shrinks always fits, lest a source that is full could not even be emptied.
        is_growing = keys > 0 or size > 0
        fits = (
            usage.keys + keys <= MAX_KEYS and usage.bytes + size <= MAX_BYTES and self.total.bytes + size <= MAX_TOTAL
        )
        return fits or not is_growing

    def _drop_ended(self, account: Account, now: float) -> None:
        """Drop what has ended: of this account, or of all where those together are full."""
        is_full = self.total.bytes > MAX_TOTAL - MAX_BYTES
        for one in list(self._accounts) if is_full else [account]:
            usage = self._usage.get(one)
            if usage is None or usage.may_end_at > now:
                continue  # a source that is full of what lasts is not searched with each step
            usage.may_end_at = math.inf
            for name, scope in list(self._accounts[one].items()):
                if scope.ends_at <= now:
                    self._drop(one, name)
                    continue
                for key, entry in list(scope.entries.items()):
                    if entry.ends_at <= now:
                        del scope.entries[key]
                        self._count(one, -1, -size_of(key, entry))
                    else:
                        self._note_end(one, min(entry.ends_at, scope.ends_at))
                if not scope.entries:
                    self._drop(one, name)

    def _drop(self, account: Account, scope: str) -> None:
        scopes = self._accounts[account]
        entries = scopes.pop(scope).entries
        self._count(account, -len(entries), -sum(size_of(key, entry) for key, entry in entries.items()))
        if not scopes:
            del self._accounts[account]
            del self._usage[account]

    def _count(self, account: Account, keys: int, size: int) -> None:
        for usage in (self._usage.setdefault(account, Usage(may_end_at=math.inf)), self.total):
            usage.keys += keys
            usage.bytes += size

    def _note_end(self, account: Account, at: float) -> None:
        usage = self._usage[account]
        usage.may_end_at = min(usage.may_end_at, at)


EMPTY = Scope()


def account_of(place: Place) -> Account:
    return place.namespace, place.scope.startswith(CLAIMED)


def end_of(place: Place, now: float) -> float:
    return now + place.linger if place.linger is not None else math.inf


def size_of(key: str, entry: Entry) -> int:
    return len(key.encode()) + len(entry.value) + OVERHEAD


def check(asked: Asked) -> None:
    """Hold a step to what the worker's own code lets through."""
    sizes = (len(asked.key.encode()) <= MAX_KEY, len(asked.value) <= MAX_VALUE, len(asked.expected) <= MAX_VALUE)
    if not asked.key or not all(sizes) or not 0 <= asked.ttl <= MAX_TTL:
        raise GarbageStepError(f"a {asked.operation} whose key, value or ttl is out of its bounds")
    try:
        for data in (asked.value, asked.expected):
            if data and msgspec.json.decode(data) is None:
                raise GarbageStepError("a null, which stands for no value")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise GarbageStepError(f"a value that is no JSON: {error}") from None


def get(asked: Asked, before: Entry | None, ends_at: float) -> Planned:
    return Planned(before.value if before is not None else b"")


def put(asked: Asked, before: Entry | None, ends_at: float) -> Planned:
    if not asked.value:
        raise GarbageStepError("a set without a value")
    return Planned(b"", Entry(asked.value, ends_at), is_change=True)


def delete(asked: Asked, before: Entry | None, ends_at: float) -> Planned:
    return Planned(b"true" if before is not None else b"", None, is_change=before is not None)


def compare_and_set(asked: Asked, before: Entry | None, ends_at: float) -> Planned:
    if (before.value if before is not None else b"") != asked.expected:
        return Planned(b"")
    entry = Entry(asked.value, ends_at) if asked.value else None
    return Planned(b"true", entry, is_change=entry is not None or before is not None)


def increment(asked: Asked, before: Entry | None, ends_at: float) -> Planned:
    try:
        by = NUMBER.decode(asked.value)
    except msgspec.MsgspecError as error:
        raise GarbageStepError(f"an increment by what is no number: {error}") from None
    try:
        number = NUMBER.decode(before.value) if before is not None else 0
    except msgspec.MsgspecError:
        raise RefusedStepError(f"what {asked.key!r} holds is no number, so it cannot be incremented") from None
    is_small = all(isinstance(one, float) or one in COUNTERS for one in (number, by))
    total = number + by if is_small else math.inf
    if not math.isfinite(total) or (isinstance(total, int) and total not in COUNTERS):
        raise RefusedStepError(f"{asked.key!r} would be over what a counter can hold")
    return Planned(
        value := msgspec.json.encode(total),
        Entry(value, before.ends_at if before is not None else ends_at),
        is_change=True,
    )


STEPS = {"get": get, "set": put, "increment": increment, "delete": delete, "compare_and_set": compare_and_set}
