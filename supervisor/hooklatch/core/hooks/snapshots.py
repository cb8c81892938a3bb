"""The hooks that a viewer sees, and which of them a fire calls.

Knows hooks and payloads; does not know files, sessions or processes.

    Snapshot     all hooks of a viewer, in firing order; a change makes a new one, and a fire keeps the one that it has
    Chain        those of one event
    Selection    those of them that match one payload, and whose conditions (`where`) may hold

Each is made once and never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.conditions import PayloadFacts, UnreadableFieldError
from hooklatch.core.hooks.matchers import MAX_STEPS
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, PythonTarget
from hooklatch.core.payload import Payload
from hooklatch.core.tools import KINDS, OTHER, find_tool_kind_by_name

__all__ = [
    "MAX_BUDGET", "EventHooks", "SnapshotDiff", "HookSelection", "Snapshot", "CallGroup", "select_amenders",
    "compute_budget", "compare_snapshots", "group_hooks",
    "find_tool_kind", "plan_call_groups",
]  # fmt: skip

MAX_BUDGET = 600.0  # seconds per fire
MAX_BESIDE = 4  # hooks of a source that are called at the same time: as many as it has workers, if nothing else is set
MAX_RUN = 16  # hooks that one worker is given at once: others wait for it meanwhile
RUN_TIMEOUT = 0.05  # seconds; a shorter one may pass before a worker that runs several looks at its clock
RUN_CONFIG = 64 * 2**10  # bytes of a hook's config: several of them go into one frame
KIND = "tool_kind"  # the key beside `tool_name` that says in one word for all hosts what a tool does
MAX_KEPT = 256  # matched values whose selection is kept for each event: hosts choose them
MAX_NARROWED = 64  # of each selection: those of which conditions leave some hooks out
MAX_KEPT_VALUE = 100  # characters of one; names of tools are shorter


class Snapshot:
    """All hooks that one viewer sees, in firing order.

    `base` are the hooks that it shares with other viewers: what is computed of them is computed once.
    """

    __slots__ = ("_base", "_chains", "_digest", "_fingerprints", "_hooked", "_own", "hooks", "revision")

    def __init__(self, revision: int, hooks: Iterable[Hook], base: Snapshot | None = None) -> None:
        own = order_hooks_by_priority(hooks)
        if base is not None and own and base.hooks and own[0].layer <= base.hooks[-1].layer:
            own, base = order_hooks_by_priority((*base.hooks, *own)), None  # they fire among each other
        self.hooks: tuple[Hook, ...] = own if base is None else (*base.hooks, *own)
        self.revision = revision
        self._base = base
        self._own = own
        self._digest: str | None = None
        self._fingerprints: bytes | None = None
        self._chains: dict[str, EventHooks] = {}
        self._hooked: frozenset[str] | None = None

    @property
    def hooked(self) -> frozenset[str]:
        """Return the events that an enabled hook is for; EVERY_GATE stands for all that fail closed."""
        if self._hooked is None:
            own = frozenset(hook.event for hook in self._own if hook.enabled)
            self._hooked = own if self._base is None else self._base.hooked | own
        return self._hooked

    @property
    def digest(self) -> str:
        if self._digest is None:
            before = self._base.fingerprints if self._base is not None else b""
            self._digest = hashlib.sha256(before + digest_hooks(self._own)).hexdigest()
        return self._digest

    def is_like(self, other: Snapshot) -> bool:
        """Return whether its hooks behave like another's; other numbers of them need not be hashed to tell."""
        return len(self.hooks) == len(other.hooks) and self.digest == other.digest

    @property
    def fingerprints(self) -> bytes:
        """Return those of all its hooks, in firing order; kept, for they begin what the digests on this base are of."""
        if self._fingerprints is None:
            self._fingerprints = digest_hooks(self.hooks)
        return self._fingerprints

    def for_event(self, spec: EventSpec) -> tuple[Hook, ...]:
        """Return the enabled hooks of an event in firing order, with EVERY_GATE hooks if the event fails closed."""
        return self.chain(spec).hooks

    def chain(self, spec: EventSpec) -> EventHooks:
        """Return the chain of an event: its enabled hooks, with EVERY_GATE hooks if the event fails closed."""
        found = self._chains.get(spec.name)
        if found is None or found.spec is not spec:  # a custom event's definition may change while its hooks stay
            names = (spec.name, EVERY_GATE) if spec.fails_closed else (spec.name,)
            own = tuple(hook for hook in self._own if hook.event in names and hook.enabled)
            found = self._chains[spec.name] = EventHooks(
                spec, own if self._base is None else (*self._base.chain(spec).hooks, *own)
            )
        return found


def digest_hooks(hooks: Iterable[Hook]) -> bytes:
    return b"".join(hook.fingerprint for hook in hooks)


def order_hooks_by_priority(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    # Within a layer: priority, then the order of registration, which the sort keeps because it is stable.
    return tuple(sorted(hooks, key=lambda hook: (hook.layer, -hook.priority)))


class CallGroup(NamedTuple):
    """Hooks that are called at the same time; and if it is one, those that may share its worker (`Call.then`)."""

    hooks: tuple[Hook, ...]
    then: tuple[Hook, ...] = ()


class HookSelection:
    """The hooks that match a payload; a `fault` says which field nobody can match, and so whose guard cannot judge."""

    __slots__ = ("amenders", "fault", "hooks", "is_conditional", "narrowed", "needed", "turns")

    def __init__(self, spec: EventSpec, hooks: Iterable[Hook], *, fault: str = "") -> None:
        self.hooks = tuple(hooks)
        self.is_conditional = any(hook.where is not None for hook in self.hooks)
        self.narrowed: dict[int, HookSelection] = {}  # by which of the hooks are left, a bit for each
        self.turns = plan_call_groups(spec, self.hooks)
        self.amenders = select_amenders(self.hooks)
        self.needed = compute_budget(spec, self.hooks)  # seconds
        self.fault = fault

    def budget(self, requested: float | None = None) -> float:
        """Return the seconds that a fire may take: as requested, otherwise as its hooks need."""
        return self.needed if requested is None else min(requested, MAX_BUDGET)


def select_amenders(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """Return the hooks that amend: the least trusted layer first, so that the operator's amendment is the last one."""
    return tuple(sorted((hook for hook in hooks if hook.amends), key=lambda hook: -hook.layer))


def group_hooks(spec: EventSpec, hooks: Iterable[Hook]) -> tuple[tuple[Hook, ...], ...]:
    """Part hooks, in firing order, into those that are called at the same time."""
    groups: list[list[Hook]] = []
    for hook in hooks:
        if groups and (spec.flow == "concurrent" or (spec.is_gate and is_beside(groups[-1], hook))):
            groups[-1].append(hook)
        else:
            groups.append([hook])
    return tuple(map(tuple, groups))


def plan_call_groups(spec: EventSpec, hooks: Iterable[Hook]) -> tuple[CallGroup, ...]:
    """Part hooks, in firing order, into those that are called at the same time, and say which can share a worker."""
    found: list[CallGroup] = []
    for group in reversed(group_hooks(spec, hooks)):
        after = found[-1] if found else CallGroup(())
        is_run = len(group) == 1 == len(after.hooks) and may_follow(spec, group[0], after.hooks[0])
        found.append(CallGroup(group, (*after.hooks, *after.then)[: MAX_RUN - 1] if is_run else ()))
    return tuple(reversed(found))


def may_follow(spec: EventSpec, first: Hook, second: Hook) -> bool:
    """Return whether the worker that ran one hook may at once run the next one: both are functions of one build."""
    one, other = first.target, second.target
    if not (isinstance(one, PythonTarget) and isinstance(other, PythonTarget)):
        return False
    is_same = one.build == other.build and one.source.location == other.source.location
    return is_same and is_plain(spec, first) and is_plain(spec, second)


def is_plain(spec: EventSpec, hook: Hook) -> bool:
    """Return whether it is a function that is called as it is: no command, and in no other system's words."""
    is_ours = hook.problem is None and not hook.target.native and not hook.target.command
    return is_ours and (hook.timeout or spec.timeout) >= RUN_TIMEOUT and len(hook.config) <= RUN_CONFIG


def is_beside(group: Sequence[Hook], hook: Hook) -> bool:
    """Return whether a guard may be called at the same time as those before it: all only judge, and have workers."""
    if not (hook.only_judges and group[0].only_judges):
        return False
    place = runner_key(hook)
    return sum(runner_key(one) == place for one in group) < MAX_BESIDE


def runner_key(hook: Hook) -> str | int:
    """Return what runs a hook: its source, or the connection that serves it."""
    return hook.target.source.location if isinstance(hook.target, PythonTarget) else hook.target.owner


class EventHooks:
    """Hooks of one event in firing order, with what a fire needs to know of them: made once, for all its fires."""

    __slots__ = (
        "_everything",
        "_field",
        "_has_kinds",
        "_has_names",
        "_selections",
        "_weight",
        "hooks",
        "indices",
        "spec",
    )

    def __init__(self, spec: EventSpec, hooks: Iterable[Hook]) -> None:
        self.spec = spec
        self.hooks = tuple(hooks)
        self.indices = {hook: index for index, hook in enumerate(self.hooks)}
        # What is matched; None if no hook does.
        self._field = None if all(hook.matcher.matches_all for hook in self.hooks) else spec.match
        self._weight = sum(hook.matcher.weight for hook in self.hooks)
        # Whether a tool's kind can make a difference: names are compared with it, patterns are not.
        names = frozenset[str]().union(*(hook.matcher.names for hook in self.hooks))
        self._has_names = self._field == "tool_name" and bool(names)
        self._has_kinds = self._field == "tool_name" and not names.isdisjoint(KINDS)
        self._everything: HookSelection | None = None
        # By what is matched, if it is short: a value, or a tool's name and kind.
        self._selections: dict[str | tuple[str, str] | None, HookSelection] = {}

    def select(self, payload: Payload, folder: str | None = None) -> HookSelection:
        """Return the hooks that are for the payload of an agent in this folder: by their matchers and conditions.

        Raises:
            PayloadError: the payload is not a JSON object.
        """
        found = self.matching(payload)
        return self._meant(found, payload, folder) if found.is_conditional else found

    def _meant(self, matching: HookSelection, payload: Payload, folder: str | None) -> HookSelection:
        """Leave out the hooks of which a condition does not hold.

        At a gate, a field that cannot be read is a fault if a failure of the hook would count; others are called, and
        look for themselves.  Elsewhere such a hook is not called, as one whose matcher has nothing to match.
        """
        facts, left, fault = PayloadFacts(self.spec, payload, folder), 0, matching.fault
        for number, hook in enumerate(matching.hooks):
            if hook.where is None:
                left |= 1 << number
                continue
            try:
                is_meant = hook.where.may_hold(facts)
            except UnreadableFieldError as error:
                is_meant = self.spec.fails_closed
                if not (hook.observe or hook.optional):
                    fault = fault or f"{error}, and {hook.name} has a condition on it"
            left |= is_meant << number
        if fault:
            return HookSelection(self.spec, list_selected_hooks(matching, left), fault=fault)
        found = matching.narrowed.get(left)
        if found is None:
            if len(matching.narrowed) >= MAX_NARROWED:
                matching.narrowed.clear()
            found = matching.narrowed[left] = HookSelection(self.spec, list_selected_hooks(matching, left))
        return found

    def matching(self, payload: Payload) -> HookSelection:
        """Return the hooks whose matcher accepts the payload, whatever their conditions say."""
        if self._field is None:
            if self._everything is None:
                self._everything = HookSelection(self.spec, self.hooks)
            return self._everything
        value = payload.text(self._field)
        if self._has_names and value is not None and (self._has_kinds or KIND in payload.fields):
            kind = find_tool_kind(payload, value)
            if kind is None:
                return self._blind()
            return self._selections.get((value, kind)) or self._match(value, kind)
        return self._selections.get(value) or self._match(value)

    def _blind(self) -> HookSelection:
        return HookSelection(
            self.spec, (hook for hook in self.hooks if hook.matcher.matches_all), fault=describe_blindness(self.spec)
        )

    def _match(self, value: str | None, kind: str | None = None) -> HookSelection:
        if value is None or len(value) * self._weight > MAX_STEPS:
            return self._blind()
        # Of a tool that is known, its own kind too: what a payload says of it cannot take a guard away.
        kinds = (
            {kind if kind in KINDS else OTHER} | {find_tool_kind_by_name(value)} - {OTHER}
            if kind is not None
            else set[str]()
        )
        found = HookSelection(
            self.spec,
            (hook for hook in self.hooks if hook.matcher.matches(value) or not kinds.isdisjoint(hook.matcher.names)),
        )
        if len(value) <= MAX_KEPT_VALUE and (kind is None or len(kind) <= MAX_KEPT_VALUE):
            if len(self._selections) >= MAX_KEPT:
                self._selections.clear()
            self._selections[value if kind is None else (value, kind)] = found
        return found


def list_selected_hooks(selection: HookSelection, left: int) -> list[Hook]:
    return [hook for number, hook in enumerate(selection.hooks) if left >> number & 1]


def describe_blindness(spec: EventSpec) -> str:
    return f"its field {spec.match!r} is missing, not a string, or too long to match, and hooks match on it"


def find_tool_kind(payload: Payload, name: str) -> str | None:
    """Return the kind that hooks match: as the payload says, else of a tool that is known; None if it is no text.

    Raises:
        PayloadError: the payload is not a JSON object.
    """
    return payload.text(KIND) if KIND in payload.fields else find_tool_kind_by_name(name)


def compute_budget(spec: EventSpec, hooks: Iterable[Hook], *, wait: float = 0.0) -> float:
    """Return the seconds that a fire may take if its host does not say: enough for each of its hooks' timeouts.

    `wait` is for how long a person may be asked besides, where hooks can ask.
    """
    needed = sum(hook.timeout or spec.timeout for hook in hooks)
    return min(max(spec.timeout, needed) + (wait if "ask" in spec.verdicts else 0.0), MAX_BUDGET)


class SnapshotDiff(msgspec.Struct, frozen=True):
    """The ids of hooks that a change added, removed or altered."""

    added: list[str]
    removed: list[str]
    changed: list[str]

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changed)


def compare_snapshots(old: Snapshot, new: Snapshot) -> SnapshotDiff:
    """Compare two snapshots by name."""
    before = {hook.name: hook for hook in old.hooks}
    after = {hook.name: hook for hook in new.hooks}
    return SnapshotDiff(
        added=[hook.id for name, hook in after.items() if name not in before],
        removed=[hook.id for name, hook in before.items() if name not in after],
        changed=[
            hook.id
            for name, hook in after.items()
            if name in before and before[name] is not hook and before[name].fingerprint != hook.fingerprint
        ],
    )
