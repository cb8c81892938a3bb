"""State that sources keep between calls: bounded values by key, changed in atomic steps.

Does not know files, workers or a clock.

    scope       values of a source in one layer or project, for all sessions or for one
    step        planned first (`plan` changes nothing), then applied (`take`), so that it can be journaled in between
    expiry      of a key, by its ttl; of a scope, when its session ends or after `idle_ttl` seconds without use

Nothing is evicted to make room: a value that does not fit is refused.  Only expired values are dropped, lazily.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from hooklatch_worker.author.state import MAX_KEY, MAX_TTL, MAX_VALUE, StateRequest

__all__ = [
    "MAX_BYTES", "MAX_KEYS", "MAX_TOTAL", "StoredValue", "GarbageStepError", "Keyspace", "Namespace", "StateScope",
    "PlannedStep", "RefusedStepError", "Usage", "name_session_scope",
]  # fmt: skip

MAX_KEYS = 10_000  # per account
MAX_BYTES = 4 * 2**20  # per account
MAX_TOTAL = 16 * 2**20  # bytes of all accounts
OVERHEAD = 256  # approximate bytes per key, besides the key and its value
COUNTERS = range(-(2**63), 2**63)  # integers that all JSON parsers read alike
LIVE, CLAIMED = "=", "?"  # first character of a session's scope
NUMBER: msgspec.json.Decoder[int | float] = msgspec.json.Decoder(int | float)


class RefusedStepError(Exception):
    """A step cannot be applied; the text says why and what to do."""


class GarbageStepError(Exception):
    """A step that a genuine worker never requests."""


class Namespace(msgspec.Struct, frozen=True, order=True):
    """The owner of values: a layer, the project, plugin or session within it, and the source's location."""

    layer: str
    within: str
    source: str


class StateScope(msgspec.Struct, frozen=True):
    """One scope of a namespace: "" if all sessions share it, otherwise a `name_session_scope`.

    The scope expires after `idle_ttl` seconds without use; None means never.
    """

    namespace: Namespace
    scope: str = ""
    idle_ttl: float | None = None


def name_session_scope(session_id: str, *, is_claimed: bool) -> str:
    """Return the name of a session's scope.

    Sessions that only a one-shot client claims have their own scopes and account: they neither reach the values of
    live sessions nor use up their room.
    """
    return f"{CLAIMED if is_claimed else LIVE}{session_id}"


class StoredValue(msgspec.Struct, frozen=True):
    """A value as JSON, and the time at which it expires."""

    value: bytes
    ends_at: float = math.inf


class PlannedStep(msgspec.Struct, frozen=True):
    """The result of a step, and its change if `is_change`: the new entry, or None to remove the key."""

    result: bytes
    entry: StoredValue | None = None
    is_change: bool = False


class Usage(msgspec.Struct):
    """The amount that is stored, including expired values not yet dropped; nothing expires before `may_end_at`."""

    keys: int = 0
    bytes: int = 0
    may_end_at: float = 0.0


class ScopeValues:
    __slots__ = ("ends_at", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, StoredValue] = {}
        self.ends_at = math.inf


Account = tuple[Namespace, bool]


class Keyspace:
    """All values, by account, scope and key."""

    def __init__(self) -> None:
        self._accounts: dict[Account, dict[str, ScopeValues]] = {}
        self._usage: dict[Account, Usage] = {}
        self.total = Usage()

    def plan(self, place: StateScope, request: StateRequest, now: float) -> PlannedStep:
        """Return the result and the change of a step, without applying it.

        Raises:
            RefusedStepError: the step exceeds a limit, or the current value does not allow it.
            GarbageStepError: a genuine worker never requests the step.
        """
        validate_state_request(request)
        before = self.find(place, request.key, now)
        planned = STEPS[request.operation](request, before, now + request.ttl if request.ttl else math.inf)
        if planned.is_change and planned.entry is not None:
            self._check_room(place, request.key, planned.entry, now)
        return planned

    def find(self, place: StateScope, key: str, now: float) -> StoredValue | None:
        """Return a key's entry unless it has expired; the lookup renews its scope."""
        scope = self._scope(place, now)
        if scope is None:
            return None
        scope.ends_at = find_expiry(place, now)
        entry = scope.entries.get(key)
        return entry if entry is not None and entry.ends_at > now else None

    def take(self, place: StateScope, key: str, entry: StoredValue | None, now: float) -> None:
        """Set an entry, or remove the current one."""
        account = find_account(place)
        scope = self._scope(place, now)
        if scope is None:
            if entry is None:
                return
            scope = self._accounts.setdefault(account, {}).setdefault(place.scope, ScopeValues())
        scope.ends_at = find_expiry(place, now)
        old = scope.entries.pop(key, None)
        if old is not None:
            self._count(account, -1, -measure_entry(key, old))
        if entry is not None:
            scope.entries[key] = entry
            self._count(account, 1, measure_entry(key, entry))
            self._note_end(account, min(entry.ends_at, scope.ends_at))
        elif not scope.entries:
            self._drop(account, place.scope)

    def list_scopes(self, scope: str) -> list[StateScope]:
        """Return the scopes of this name in all namespaces that have values there."""
        return [StateScope(namespace, scope) for (namespace, _), scopes in self._accounts.items() if scope in scopes]

    def end_scope(self, place: StateScope) -> None:
        """Drop all values of a scope."""
        if place.scope in self._accounts.get(find_account(place), {}):
            self._drop(find_account(place), place.scope)

    def end_namespace(self, namespace: Namespace) -> None:
        """Drop all values of a namespace."""
        for account in [account for account in self._accounts if account[0] == namespace]:
            for scope in list(self._accounts[account]):
                self._drop(account, scope)

    def live(self, now: float) -> Iterator[tuple[StateScope, str, StoredValue]]:
        """Yield everything that has not expired; steps may be applied between two items."""
        for (namespace, _), scopes in list(self._accounts.items()):
            for name, scope in list(scopes.items()):
                place = StateScope(namespace, name)
                for key, entry in list(scope.entries.items()):
                    if min(entry.ends_at, scope.ends_at) > now:
                        yield place, key, entry

    def usage(self) -> dict[Namespace, Usage]:
        """Return the usage of each namespace."""
        usages: dict[Namespace, Usage] = {}
        for (namespace, _), usage in self._usage.items():
            total = usages.setdefault(namespace, Usage())
            total.keys += usage.keys
            total.bytes += usage.bytes
        return dict(sorted(usages.items()))

    def clear(self) -> None:
        self._accounts.clear()
        self._usage.clear()
        self.total = Usage()

    def _scope(self, place: StateScope, now: float) -> ScopeValues | None:
        account = find_account(place)
        scope = self._accounts.get(account, {}).get(place.scope)
        if scope is not None and scope.ends_at <= now:
            self._drop(account, place.scope)
            return None
        return scope

    def _check_room(self, place: StateScope, key: str, entry: StoredValue, now: float) -> None:
        if self._has_room(place, key, entry):
            return
        account = find_account(place)
        self._drop_ended(account, now)
        if not self._has_room(place, key, entry):
            usage = self._usage.get(account, Usage())
            raise RefusedStepError(
                f"there is no room for {key!r}: {place.namespace.source} holds {usage.keys} keys and {usage.bytes}"
                f" bytes (of {MAX_KEYS} and {MAX_BYTES}), all sources {self.total.bytes} (of {MAX_TOTAL}); give keys a"
                " ttl"
            )

    def _has_room(self, place: StateScope, key: str, entry: StoredValue) -> bool:
        account = find_account(place)
        usage = self._usage.get(account, Usage())
        old = self._accounts.get(account, {}).get(place.scope, EMPTY).entries.get(key)
        keys, size = int(old is None), measure_entry(key, entry) - (measure_entry(key, old) if old is not None else 0)
        # A step that shrinks always fits; otherwise a full source could not even be emptied.
        is_growing = keys > 0 or size > 0
        fits = (
            usage.keys + keys <= MAX_KEYS and usage.bytes + size <= MAX_BYTES and self.total.bytes + size <= MAX_TOTAL
        )
        return fits or not is_growing

    def _drop_ended(self, account: Account, now: float) -> None:
        """Drop expired values of this account, or of all accounts if the total is nearly full."""
        is_full = self.total.bytes > MAX_TOTAL - MAX_BYTES
        for expiring_account in list(self._accounts) if is_full else [account]:
            usage = self._usage.get(expiring_account)
            if usage is None or usage.may_end_at > now:
                continue  # nothing can have expired: do not search a full source on every step
            usage.may_end_at = math.inf
            for name, scope in list(self._accounts[expiring_account].items()):
                if scope.ends_at <= now:
                    self._drop(expiring_account, name)
                    continue
                for key, entry in list(scope.entries.items()):
                    if entry.ends_at <= now:
                        del scope.entries[key]
                        self._count(expiring_account, -1, -measure_entry(key, entry))
                    else:
                        self._note_end(expiring_account, min(entry.ends_at, scope.ends_at))
                if not scope.entries:
                    self._drop(expiring_account, name)

    def _drop(self, account: Account, scope: str) -> None:
        scopes = self._accounts[account]
        entries = scopes.pop(scope).entries
        self._count(account, -len(entries), -sum(measure_entry(key, entry) for key, entry in entries.items()))
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


EMPTY = ScopeValues()


def find_account(place: StateScope) -> Account:
    return place.namespace, place.scope.startswith(CLAIMED)


def find_expiry(place: StateScope, now: float) -> float:
    return now + place.idle_ttl if place.idle_ttl is not None else math.inf


def measure_entry(key: str, entry: StoredValue) -> int:
    return len(key.encode()) + len(entry.value) + OVERHEAD


def validate_state_request(request: StateRequest) -> None:
    """Check a step against the limits that the worker's own code enforces.

    Raises:
        GarbageStepError: the step is outside these limits.
    """
    sizes = (len(request.key.encode()) <= MAX_KEY, len(request.value) <= MAX_VALUE, len(request.expected) <= MAX_VALUE)
    if not request.key or not all(sizes) or not 0 <= request.ttl <= MAX_TTL:
        raise GarbageStepError(f"a {request.operation} whose key, value or ttl is out of bounds")
    try:
        for data in (request.value, request.expected):
            if data and msgspec.json.decode(data) is None:
                raise GarbageStepError("a null, which stands for no value")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise GarbageStepError(f"a value that is not JSON: {error}") from None


def plan_get(request: StateRequest, before: StoredValue | None, ends_at: float) -> PlannedStep:
    return PlannedStep(before.value if before is not None else b"")


def plan_put(request: StateRequest, before: StoredValue | None, ends_at: float) -> PlannedStep:
    if not request.value:
        raise GarbageStepError("a set without a value")
    return PlannedStep(b"", StoredValue(request.value, ends_at), is_change=True)


def plan_delete(request: StateRequest, before: StoredValue | None, ends_at: float) -> PlannedStep:
    return PlannedStep(b"true" if before is not None else b"", None, is_change=before is not None)


def compare_and_set(request: StateRequest, before: StoredValue | None, ends_at: float) -> PlannedStep:
    if (before.value if before is not None else b"") != request.expected:
        return PlannedStep(b"")
    entry = StoredValue(request.value, ends_at) if request.value else None
    return PlannedStep(b"true", entry, is_change=entry is not None or before is not None)


def plan_increment(request: StateRequest, before: StoredValue | None, ends_at: float) -> PlannedStep:
    try:
        increment = NUMBER.decode(request.value)
    except msgspec.MsgspecError as error:
        raise GarbageStepError(f"an increment increment something that is not a number: {error}") from None
    try:
        number = NUMBER.decode(before.value) if before is not None else 0
    except msgspec.MsgspecError:
        raise RefusedStepError(f"{request.key!r} does not hold a number, so it cannot be incremented") from None
    is_small = all(isinstance(term, float) or term in COUNTERS for term in (number, increment))
    total = number + increment if is_small else math.inf
    if not math.isfinite(total) or (isinstance(total, int) and total not in COUNTERS):
        raise RefusedStepError(f"{request.key!r} would exceed the range of a counter")
    return PlannedStep(
        value := msgspec.json.encode(total),
        StoredValue(value, before.ends_at if before is not None else ends_at),
        is_change=True,
    )


STEPS = {
    "get": plan_get,
    "set": plan_put,
    "increment": plan_increment,
    "delete": plan_delete,
    "compare_and_set": compare_and_set,
}
