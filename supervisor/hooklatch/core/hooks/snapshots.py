"""The hooks that a session sees, and the selection of those that a fire calls.

Knows hooks and payloads; does not know files, sessions or processes.

    Snapshot         all hooks of a session, in firing order; a change makes a new one, and a fire keeps its own
    EventHooks       the hooks of one event
    HookSelection    the hooks that match one payload, and whose conditions (`where`) may hold

Each is made once and never changed.

    snapshot.chain(spec).select(payload, "/srv/app").hooks
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.matchers import MAX_STEPS, UnreadableFieldError
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, PythonTarget
from hooklatch.core.payload import Payload
from hooklatch_worker.author.tools import KINDS, OTHER, find_tool_kind_by_name

if TYPE_CHECKING:
    from hooklatch.core.hooks.conditions import PayloadFacts

__all__ = [
    "MAX_BUDGET", "EventHooks", "SnapshotDiff", "HookSelection", "Snapshot", "CallGroup", "select_amenders",
    "compute_budget", "compare_snapshots", "group_hooks", "find_tool_kind", "plan_call_groups",
]  # fmt: skip

MAX_BUDGET = 600.0  # seconds per fire
MAX_BESIDE = 4  # hooks of a source that are called at the same time: the default number of its workers
MAX_RUN = 16  # hooks that one worker is given at once: other fires wait for the worker until it is done
RUN_TIMEOUT = 0.05  # seconds; a shorter one may pass before a worker that runs several looks at its clock
RUN_CONFIG = 64 * 2**10  # bytes of a hook's config: several of them go into one frame
KIND = "tool_kind"  # the key beside `tool_name` that is the same for all hosts
MAX_KEPT = 256  # matched values whose selection is kept for each event: hosts choose them, so their number is bounded
MAX_NARROWED = 64  # narrower selections of each selection, by the hooks that conditions leave out
MAX_KEPT_VALUE = 100  # characters of a matched value that is kept; names of tools are shorter


class Snapshot:
    """All hooks that one session sees, in firing order.

    `base` has the hooks that it shares with other sessions, so that their chains and digests are computed once.
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
        """Return the events that have an enabled hook; EVERY_GATE stands for all that fail closed."""
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
        """Return whether its hooks behave like another's; the cheap comparison of their numbers comes first."""
        return len(self.hooks) == len(other.hooks) and self.digest == other.digest

    @property
    def fingerprints(self) -> bytes:
        """Return the fingerprints of all hooks, in firing order; kept, since digests on this base begin with them."""
        if self._fingerprints is None:
            self._fingerprints = digest_hooks(self.hooks)
        return self._fingerprints

    def for_event(self, spec: EventSpec) -> tuple[Hook, ...]:
        """Return the enabled hooks of an event in firing order, with EVERY_GATE hooks if the event fails closed."""
        return self.chain(spec).hooks

    def chain(self, spec: EventSpec) -> EventHooks:
        """Return the chain of an event: its enabled hooks, with EVERY_GATE hooks if the event fails closed."""
        chain = self._chains.get(spec.name)
        if chain is None or chain.spec is not spec:  # a custom event's definition may change while its hooks stay
            names = (spec.name, EVERY_GATE) if spec.fails_closed else (spec.name,)
            own = tuple(hook for hook in self._own if hook.event in names and hook.enabled)
            chain = self._chains[spec.name] = EventHooks(
                spec, own if self._base is None else (*self._base.chain(spec).hooks, *own)
            )
        return chain


def digest_hooks(hooks: Iterable[Hook]) -> bytes:
    return b"".join(hook.fingerprint for hook in hooks)


def order_hooks_by_priority(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    # Within a layer: priority, then the order of registration, which both sorts keep because they are stable.
    return tuple(sorted(sorted(hooks, key=attrgetter("priority"), reverse=True), key=attrgetter("layer")))


class CallGroup(NamedTuple):
    """Hooks that are called at the same time; if it is one hook, also those that may share its worker."""

    hooks: tuple[Hook, ...]
    following: tuple[Hook, ...] = ()


class HookSelection:
    """The hooks that match a payload; a `fault` names the field that cannot be matched, and so not judged."""

    __slots__ = ("amenders", "call_groups", "fault", "hooks", "is_conditional", "narrowed", "needed", "only")

    def __init__(self, spec: EventSpec, hooks: Iterable[Hook], *, fault: str = "") -> None:
        self.hooks = tuple(hooks)
        self.is_conditional = any(hook.where is not None for hook in self.hooks)
        self.narrowed: dict[int, HookSelection] = {}  # by the remaining hooks, a bit for each
        self.call_groups = plan_call_groups(spec, self.hooks)
        self.amenders = select_amenders(self.hooks)
        self.needed = compute_budget(spec, self.hooks)  # seconds
        self.fault = fault
        self.only = self.hooks[0] if len(self.hooks) == 1 else None

    def budget(self, requested: float | None = None) -> float:
        """Return the seconds that a fire may take: as requested, otherwise as its hooks need."""
        return self.needed if requested is None else min(requested, MAX_BUDGET)


def select_amenders(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """Return the hooks that amend: the least trusted layer first, so that the operator's amendment is the last one."""
    return tuple(sorted((hook for hook in hooks if hook.amends), key=lambda hook: -hook.layer))


def group_hooks(spec: EventSpec, hooks: Iterable[Hook]) -> tuple[tuple[Hook, ...], ...]:
    """Divide hooks, in firing order, into groups that are called at the same time."""
    groups: list[list[Hook]] = []
    for hook in hooks:
        if groups and (spec.flow == "concurrent" or (spec.is_gate and is_beside(groups[-1], hook))):
            groups[-1].append(hook)
        else:
            groups.append([hook])
    return tuple(map(tuple, groups))


def plan_call_groups(spec: EventSpec, hooks: Iterable[Hook]) -> tuple[CallGroup, ...]:
    """Divide hooks, in firing order, into groups that are called at once, with the hooks that can share a worker."""
    call_groups: list[CallGroup] = []
    for group in reversed(group_hooks(spec, hooks)):
        after = call_groups[-1] if call_groups else CallGroup(())
        is_run = len(group) == 1 == len(after.hooks) and may_follow(spec, group[0], after.hooks[0])
        call_groups.append(CallGroup(group, (*after.hooks, *after.following)[: MAX_RUN - 1] if is_run else ()))
    return tuple(reversed(call_groups))


def may_follow(spec: EventSpec, first: Hook, second: Hook) -> bool:
    """Return whether a worker may run the second hook right after the first: both are functions of one build."""
    target, next_target = first.target, second.target
    if not (isinstance(target, PythonTarget) and isinstance(next_target, PythonTarget)):
        return False
    is_same = target.build == next_target.build and target.source.location == next_target.source.location
    return is_same and is_plain(spec, first) and is_plain(spec, second)


def is_plain(spec: EventSpec, hook: Hook) -> bool:
    """Return whether a hook is a plain function: not a command, and not in a dialect."""
    is_ours = hook.problem is None and not hook.target.native and not hook.target.command
    return is_ours and (hook.timeout or spec.timeout) >= RUN_TIMEOUT and len(hook.config) <= RUN_CONFIG


def is_beside(group: Sequence[Hook], hook: Hook) -> bool:
    """Return whether a guard may be called at the same time as those before it: all only judge, and have workers."""
    if not (hook.only_judges and group[0].only_judges):
        return False
    key = runner_key(hook)
    return sum(runner_key(member) == key for member in group) < MAX_BESIDE


def runner_key(hook: Hook) -> str | int:
    """Return a key for the runner of a hook: its source, or the connection that serves it."""
    return hook.target.source.location if isinstance(hook.target, PythonTarget) else hook.target.owner


class EventHooks:
    """The hooks of one event in firing order, with all that its fires need of them, computed once."""

    __slots__ = ("_everything", "_field", "_has_kinds", "_has_names", "_selections", "_weight", "enforces", "hooks",
                 "indices", "spec")  # fmt: skip

    def __init__(self, spec: EventSpec, hooks: Iterable[Hook]) -> None:
        self.spec = spec
        self.hooks = tuple(hooks)
        self.enforces = not all(hook.observe for hook in self.hooks)
        self.indices = {hook: index for index, hook in enumerate(self.hooks)}
        # The field that is matched; None if no hook has a matcher.
        self._field = None if all(hook.matcher.matches_all for hook in self.hooks) else spec.match
        self._weight = sum(hook.matcher.weight for hook in self.hooks)
        # Whether a tool's kind can make a difference: names are compared with it, patterns are not.
        names = frozenset[str]().union(*(hook.matcher.names for hook in self.hooks))
        self._has_names = self._field == "tool_name" and bool(names)
        self._has_kinds = self._field == "tool_name" and not names.isdisjoint(KINDS)
        self._everything: HookSelection | None = None
        # By the matched value or, for tools, by name and kind; only short ones are kept.
        self._selections: dict[str | tuple[str, str] | None, HookSelection] = {}

    def select(self, payload: Payload, folder: str | None = None) -> HookSelection:
        """Return the hooks whose matchers and conditions fit the payload of an agent in this folder.

        Raises:
            PayloadError: the payload is not a JSON object.
        """
        matching = self.matching(payload)
        return self._narrow(matching, payload, folder) if matching.is_conditional else matching

    def _narrow(self, matching: HookSelection, payload: Payload, folder: str | None) -> HookSelection:
        """Leave out the hooks with a condition that does not hold.

        At a gate, an unreadable field is a fault if a failure of the hook would count.  Other hooks are called, and
        look for themselves.  At other events such a hook is not called, as a hook whose matcher has nothing to match.
        """
        facts: PayloadFacts | None = None
        remaining, fault = 0, matching.fault
        for number, hook in enumerate(matching.hooks):
            if hook.where is None:
                remaining |= 1 << number
                continue
            try:
                facts = facts or hook.where.read(self.spec, payload, folder)
                is_meant = hook.where.may_hold(facts)
            except UnreadableFieldError as error:
                is_meant = self.spec.fails_closed
                if not (hook.observe or hook.optional):
                    fault = fault or f"{error}, and {hook.name} has a condition on it"
            remaining |= is_meant << number
        if fault:
            return HookSelection(self.spec, list_selected_hooks(matching, remaining), fault=fault)
        narrowed = matching.narrowed.get(remaining)
        if narrowed is None:
            if len(matching.narrowed) >= MAX_NARROWED:
                matching.narrowed.clear()
            narrowed = HookSelection(self.spec, list_selected_hooks(matching, remaining))
            matching.narrowed[remaining] = narrowed
        return narrowed

    def matching(self, payload: Payload) -> HookSelection:
        """Return the hooks whose matcher accepts the payload, without regard to their conditions."""
        if self._field is None:
            if self._everything is None:
                self._everything = HookSelection(self.spec, self.hooks)
            return self._everything
        value = payload.text(self._field)
        if self._has_names and value is not None and (self._has_kinds or KIND in payload.fields):
            kind = find_tool_kind(payload, value)
            if kind is None:
                return self._select_unmatched()
            return self._selections.get((value, kind)) or self._match(value, kind)
        return self._selections.get(value) or self._match(value)

    def _select_unmatched(self) -> HookSelection:
        """Return the hooks without a matcher, with the fault that the others cannot be matched."""
        return HookSelection(
            self.spec, (hook for hook in self.hooks if hook.matcher.matches_all), fault=describe_blindness(self.spec)
        )

    def _match(self, value: str | None, kind: str | None = None) -> HookSelection:
        if value is None or len(value) * self._weight > MAX_STEPS:
            return self._select_unmatched()
        # The kind of a known tool counts too, so that a payload that names another kind cannot remove a guard.
        kinds = (
            {kind if kind in KINDS else OTHER} | {find_tool_kind_by_name(value)} - {OTHER}
            if kind is not None
            else set[str]()
        )
        selection = HookSelection(
            self.spec,
            (hook for hook in self.hooks if hook.matcher.matches(value) or not kinds.isdisjoint(hook.matcher.names)),
        )
        if len(value) <= MAX_KEPT_VALUE and (kind is None or len(kind) <= MAX_KEPT_VALUE):
            if len(self._selections) >= MAX_KEPT:
                self._selections.clear()
            self._selections[value if kind is None else (value, kind)] = selection
        return selection


def list_selected_hooks(selection: HookSelection, bits: int) -> list[Hook]:
    return [hook for number, hook in enumerate(selection.hooks) if bits >> number & 1]


def describe_blindness(spec: EventSpec) -> str:
    return f"its field {spec.match!r} is missing, not a string, or too long to match, and hooks match on it"


def find_tool_kind(payload: Payload, name: str) -> str | None:
    """Return the kind that hooks match: the payload's, otherwise that of the tool's name; None if it is not a text.

    Raises:
        PayloadError: the payload is not a JSON object.
    """
    return payload.text(KIND) if KIND in payload.fields else find_tool_kind_by_name(name)


def compute_budget(spec: EventSpec, hooks: Iterable[Hook], *, wait: float = 0.0) -> float:
    """Return the seconds that a fire may take if its host sets no limit: enough for the timeouts of all its hooks.

    `wait` is the additional time for a person's answer, at events whose hooks can ask.
    """
    needed = sum(hook.timeout or spec.timeout for hook in hooks)
    return min(max(spec.timeout, needed) + (wait if "ask" in spec.verdicts else 0.0), MAX_BUDGET)


class SnapshotDiff(msgspec.Struct, frozen=True):
    """The ids of the hooks that a change added, removed or altered."""

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
