"""Immutable snapshots of hooks, their order, and their differences.  Knows hooks and layers; does not know files,
sessions or processes.

A change creates a new snapshot with a higher revision; a fire keeps the snapshot that it started with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from functools import cached_property

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.matchers import MAX_STEPS, Matcher
from hooklatch.core.hooks.names import name_of, whole
from hooklatch.core.payload import Payload
from hooklatch_worker.wire import Source

__all__ = [
    "EVERY_GATE",
    "MAX_BUDGET",
    "Chain",
    "Difference",
    "Hook",
    "Layer",
    "Origin",
    "PythonTarget",
    "Selection",
    "ServedTarget",
    "Snapshot",
    "budget",
    "difference",
    "has",
    "misfit",
    "switched",
]

EVERY_GATE = "*"  # event of the placeholder for an unreadable file, whose events are unknown
MAX_BUDGET = 600.0  # seconds per fire
MAX_KEPT = 256  # matched values whose selection is kept for each event: hosts choose them
MAX_KEPT_VALUE = 100  # characters of one; names of tools are shorter


class Layer(IntEnum):
    """Where a hook comes from; hooks fire in the order of these numbers."""

    BUILTIN = 1
    PLUGIN = 2
    GLOBAL = 3
    PROJECT = 4
    PARENT = 5  # gates of the session that started this one
    SESSION = 6

    @property
    def label(self) -> str:
        return LABELS[self]


LABELS = {layer: layer.name.lower() for layer in Layer}


class PythonTarget(msgspec.Struct, frozen=True):
    """A function of a source.  `build` counts the source's reloads; each build has its own workers.

    A hook registered in a dialect may answer in it; `dialect` and `native` name the dialect and its native event.
    """

    source: Source
    build: int
    function: str
    runtime: str = "trio"
    command: str = ""
    dialect: str = ""
    native: str = ""

    def describe(self) -> str:
        return self.command or f"{self.source.location}:{self.function}"


class ServedTarget(msgspec.Struct, frozen=True):
    """A function in the client that registered it; `owner` is the number of that client's connection.

    A hook registered in a dialect is called in it; `dialect` and `native` name the dialect and its native event.
    """

    owner: int
    dialect: str = ""
    native: str = ""

    @property
    def command(self) -> str:
        """None: it is no shell hook."""
        return ""

    def describe(self) -> str:
        return "served by its client"


class Origin(msgspec.Struct, frozen=True):
    """The file and line that declare a hook; line 0 if unknown."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Hook(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One registered hook.  A `problem` says why it cannot run; calls then fail with cause `load`.

    `project` is the directory whose files declare it, `owner` the session that registered it.  Both are part of its
    unique name, which it keeps where a session passes it on to a child session as a gate.
    """

    id: str
    event: str
    layer: Layer
    matcher: Matcher
    target: PythonTarget | ServedTarget
    timeout: float | None = None
    priority: int = 100
    enabled: bool = True
    observe: bool = False
    optional: bool = False
    amends: bool = False
    description: str = ""
    config: bytes = b""
    origin: Origin | None = None
    problem: str | None = None
    plugin: str | None = None
    owner: str = ""
    project: str = ""
    size: int = 0  # of a client's definition, as JSON, in bytes

    @property
    def name(self) -> str:
        return self._name

    @cached_property
    def _name(self) -> str:
        return name_of(self.layer.label, self.id, project=self.project, session=self.owner)

    @cached_property
    def name_of_several(self) -> str:
        """Return its full name if other hooks may have the same layer and id; otherwise an empty string."""
        return self.name if self.project or self.owner else ""

    @cached_property
    def fingerprint(self) -> bytes:
        """Return a digest of everything that determines the hook's behaviour."""
        target = self.target
        place = (
            [
                target.source.location,
                target.source.digest,
                target.build,
                target.function,
                target.runtime,
                target.dialect,
                target.native,
            ]
            if isinstance(target, PythonTarget)
            else [target.owner, target.dialect, target.native]
        )
        parts = [
            self.name, self.event, self.layer.value, self.matcher.source, place, self.timeout, self.priority,
            self.enabled, self.observe, self.optional, self.amends, self.config.decode(), self.problem,
            self.plugin,
        ]  # fmt: skip
        return hashlib.sha256(msgspec.json.encode(parts)).digest()


def misfit(spec: EventSpec, matcher: Matcher, *, amends: bool) -> str | None:
    """Return which setting of a hook its event does not support, and what to do about it; None if all fit."""
    if spec.match is None and not matcher.matches_all:
        return f"{spec.name} has no field to match on; remove match"
    if amends and not spec.patch:
        return f"{spec.name} lets its hooks change nothing, so there is nothing to amend; remove amends"
    return None


class Difference(msgspec.Struct, frozen=True):
    """The ids of hooks that a change added, removed or altered."""

    added: list[str]
    removed: list[str]
    changed: list[str]

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changed)


class Snapshot:
    """All hooks that one viewer sees, in firing order.

    `base` are the hooks that it shares with other viewers: what is computed of them is computed once.
    """

    __slots__ = ("_base", "_chains", "_digest", "_fingerprints", "_hooked", "_own", "hooks", "revision")

    def __init__(self, revision: int, hooks: Iterable[Hook], base: Snapshot | None = None) -> None:
        own = ordered(hooks)
        if base is not None and own and base.hooks and own[0].layer <= base.hooks[-1].layer:
            own, base = ordered((*base.hooks, *own)), None  # they fire among each other
        self.hooks: tuple[Hook, ...] = own if base is None else (*base.hooks, *own)
        self.revision = revision
        self._base = base
        self._own = own
        self._digest: str | None = None
        self._fingerprints: bytes | None = None
        self._chains: dict[str, Chain] = {}
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
            self._digest = hashlib.sha256(before + fingerprints_of(self._own)).hexdigest()
        return self._digest

    @property
    def fingerprints(self) -> bytes:
        """Return those of all its hooks, in firing order; kept, for they begin what the digests on this base are of."""
        if self._fingerprints is None:
            self._fingerprints = fingerprints_of(self.hooks)
        return self._fingerprints

    def for_event(self, spec: EventSpec) -> tuple[Hook, ...]:
        """Return the enabled hooks of an event in firing order, with EVERY_GATE hooks if the event fails closed."""
        return self.chain(spec).hooks

    def chain(self, spec: EventSpec) -> Chain:
        """Return the chain of an event: its enabled hooks, with EVERY_GATE hooks if the event fails closed."""
        found = self._chains.get(spec.name)
        if found is None or found.spec is not spec:  # a custom event's definition may change while its hooks stay
            names = (spec.name, EVERY_GATE) if spec.fails_closed else (spec.name,)
            own = tuple(hook for hook in self._own if hook.event in names and hook.enabled)
            found = self._chains[spec.name] = Chain(
                spec, own if self._base is None else (*self._base.chain(spec).hooks, *own)
            )
        return found


def fingerprints_of(hooks: Iterable[Hook]) -> bytes:
    return b"".join(hook.fingerprint for hook in hooks)


def ordered(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    # Within a layer: priority, then the order of registration, which the sort keeps because it is stable.
    return tuple(sorted(hooks, key=lambda hook: (hook.layer, -hook.priority)))


class Selection:
    """The hooks that match a payload; `is_blind` if the field to match is not a string, or is too long to match."""

    __slots__ = ("hooks", "is_blind", "matching", "seconds")

    def __init__(self, spec: EventSpec, hooks: Iterable[Hook], *, is_blind: bool = False) -> None:
        self.hooks = tuple(hooks)
        self.matching = frozenset(self.hooks)
        self.seconds = budget(spec, self.hooks)
        self.is_blind = is_blind


class Chain:
    """Hooks of one event in firing order, with what a fire needs to know of them: made once, for all its fires."""

    __slots__ = ("_selections", "_weight", "amenders", "hooks", "indices", "spec")

    def __init__(self, spec: EventSpec, hooks: Iterable[Hook]) -> None:
        self.spec = spec
        self.hooks = tuple(hooks)
        self.indices = {hook: index for index, hook in enumerate(self.hooks)}
        # The least trusted layer first, so that the operator's amendment is the last one.
        self.amenders = sorted((hook for hook in self.hooks if hook.amends), key=lambda hook: -hook.layer)
        self._weight = sum(hook.matcher.weight for hook in self.hooks)
        self._selections: dict[str | None, Selection] = {}  # by the value matched; None where nothing is matched

    def select(self, payload: Payload) -> Selection:
        """Return the hooks whose matcher accepts the payload.

        Raises:
            PayloadError: the payload is not a JSON object.
        """
        everything = self._selections.get(None)
        if everything is not None:
            return everything
        spec, hooks = self.spec, self.hooks
        if spec.match is None or all(hook.matcher.matches_all for hook in hooks):
            everything = self._selections[None] = Selection(spec, hooks)
            return everything
        value = payload.text(spec.match)
        if value is None or len(value) * self._weight > MAX_STEPS:
            return Selection(spec, (hook for hook in hooks if hook.matcher.matches_all), is_blind=True)
        found = self._selections.get(value)
        if found is None:
            found = Selection(spec, (hook for hook in hooks if hook.matcher.matches(value)))
            if len(value) <= MAX_KEPT_VALUE:
                if len(self._selections) >= MAX_KEPT:
                    self._selections.clear()
                self._selections[value] = found
        return found


def budget(spec: EventSpec, hooks: Iterable[Hook], requested: float | None = None) -> float:
    """Return the seconds that a fire may take: as requested, otherwise enough for each of its hooks' timeouts."""
    if requested is not None:
        return min(requested, MAX_BUDGET)
    needed = sum(hook.timeout or spec.timeout for hook in hooks)
    return min(max(spec.timeout, needed), MAX_BUDGET)


def difference(old: Snapshot, new: Snapshot) -> Difference:
    """Compare two snapshots by name."""
    before = {hook.name: hook for hook in old.hooks}
    after = {hook.name: hook for hook in new.hooks}
    return Difference(
        added=[hook.id for name, hook in after.items() if name not in before],
        removed=[hook.id for name, hook in before.items() if name not in after],
        changed=[
            hook.id
            for name, hook in after.items()
            if name in before and before[name] is not hook and before[name].fingerprint != hook.fingerprint
        ],
    )


def switched(hooks: Iterable[Hook], switches: Mapping[str, bool]) -> list[Hook]:
    """Apply operators' enable and disable switches to hooks: by full name, otherwise by whole plugin."""
    return [
        msgspec.structs.replace(hook, enabled=not hook.enabled) if is_switched(hook, switches) else hook
        for hook in hooks
    ]


def is_switched(hook: Hook, switches: Mapping[str, bool]) -> bool:
    as_plugin = switches.get(whole(hook.plugin), hook.enabled) if hook.plugin is not None else hook.enabled
    return switches.get(hook.name, as_plugin) != hook.enabled


def has(plugins: Collection[str] | None, plugin: str) -> bool:
    """Return whether a plugin is allowed; None allows all."""
    return plugins is None or plugin in plugins
