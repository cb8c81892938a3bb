"""Hooks as they are registered: their origin, their target and their settings.

Knows hooks and layers; does not know files, sessions or processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.matchers import Matcher
from hooklatch.core.hooks.names import full_hook_name, name_whole_plugin
from hooklatch.core.messages import CallOutcome
from hooklatch_worker.author.marker import BOTH
from hooklatch_worker.wire import Source

if TYPE_CHECKING:
    from hooklatch.core.hooks.conditions import CompiledWhere

__all__ = [
    "EVERY_GATE", "Hook", "HookState", "Layer", "DeclarationSite", "PythonTarget", "ServedTarget",
    "is_plugin_allowed", "find_misfit", "apply_switches",
]  # fmt: skip

# Whether a hook is called, and if not, why.
HookState: TypeAlias = Literal["active", "disabled", "suspended", "inactive", "quarantined"]

EVERY_GATE = "*"  # event of the placeholder for an unreadable file, whose events are unknown


class Layer(IntEnum):
    """The origin of a hook; hooks fire in the order of these numbers."""

    FLEET = 1  # one policy for all machines of an organization; no user's switch reaches it
    BUILTIN = 2
    PLUGIN = 3
    GLOBAL = 4
    PROJECT = 5
    PARENT = 6  # gates of the session that started this one
    SESSION = 7

    label: str  # its name to people and on the wire


for layer in Layer:
    layer.label = layer.name.lower()


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
        return self.command or f"{self.source.location}:{self.function}".strip(":") or "nothing"


class ServedTarget(msgspec.Struct, frozen=True):
    """A function in the client that registered it; `owner` is the number of that client's connection.

    A hook registered in a dialect is called in it; `dialect` and `native` name the dialect and its native event.
    """

    owner: int
    dialect: str = ""
    native: str = ""

    @property
    def command(self) -> str:
        """The empty string, since this is not a shell hook."""
        return ""

    def describe(self) -> str:
        return "served by its client"


class DeclarationSite(msgspec.Struct, frozen=True):
    """The file and line that declare a hook; line 0 if unknown."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Hook(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One registered hook.  A `problem` says why it cannot run; calls then fail with cause `load`.

    `project` is the directory whose files declare it, `owner` the session that registered it.  Both are part of its
    unique name, which it keeps where a session passes it on to a child session as a gate.  `suspendable` says that an
    operator may leave it out for a limited time.  `dangers` are the files that its command runs and an agent can write.
    """

    id: str
    event: str
    layer: Layer
    matcher: Matcher
    target: PythonTarget | ServedTarget
    where: CompiledWhere | None = None
    timeout: float | None = None
    priority: int = 100
    enabled: bool = True
    observe: bool = False
    optional: bool = False
    amends: bool = False
    only_judges: bool = False
    description: str = ""
    config: bytes = b""
    origin: DeclarationSite | None = None
    problem: str | None = None
    plugin: str | None = None
    owner: str = ""
    project: str = ""
    suspendable: bool = True
    dangers: tuple[str, ...] = ()
    size: int = 0  # of a client's definition, as JSON, in bytes

    @cached_property
    def name(self) -> str:
        """Return its full name."""
        return full_hook_name(self.layer.label, self.id, project=self.project, session=self.owner)

    @cached_property
    def name_of_several(self) -> str:
        """Return its full name if other hooks may have the same layer and id; otherwise an empty string."""
        return self.name if self.project or self.owner else ""

    @cached_property
    def silence(self) -> CallOutcome:
        """Return the outcome of a call that says nothing, but for its duration."""
        return CallOutcome(
            layer=self.layer.label, hook=self.id, outcome="answered", cause="policy", observed=self.observe,
            command=self.target.command, name=self.name_of_several,
        )  # fmt: skip

    @cached_property
    def fingerprint(self) -> bytes:
        """Return a digest of everything that determines the hook's behaviour."""
        target = self.target
        place: list[object] = [target.dialect, target.native]
        if isinstance(target, PythonTarget):
            place += [target.source.location, target.source.digest, target.build, target.function, target.runtime]
        else:
            place.append(target.owner)
        where = self.where.source if self.where is not None else None
        parts = [
            self.name, self.event, self.layer.value, self.matcher.source, place, self.timeout, self.priority,
            where, self.enabled, self.observe, self.optional, self.amends, self.only_judges, self.config.decode(),
            self.problem, self.plugin, self.suspendable,
        ]  # fmt: skip
        return hashlib.sha256(msgspec.json.encode(parts)).digest()


def find_misfit(
    spec: EventSpec, matcher: Matcher, where: CompiledWhere | None, *, amends: bool, only_judges: bool
) -> str | None:
    """Return a message about a setting that a hook's event does not support, with its remedy; None if all fit."""
    if spec.match is None and not matcher.matches_all:
        return f"{spec.name} has no field to match on; remove match"
    if where is not None and (unknown := where.find_unknown_field(spec)) is not None:
        return f"where: {unknown}"
    if amends and not spec.patch:
        return f"{spec.name} does not allow changes, so there is nothing to amend; remove amends"
    if only_judges and not spec.is_gate:
        return f"{spec.name} is not a gate, so there is nothing to judge; remove only_judges"
    if only_judges and amends:
        return BOTH
    return None


def apply_switches(hooks: Iterable[Hook], switches: Mapping[str, bool]) -> list[Hook]:
    """Apply operators' enable and disable switches to hooks: by full name, otherwise by whole plugin.

    A switch never applies to a hook of the fleet, even if it has that hook's name.
    """
    if not switches:
        return list(hooks)
    return [
        msgspec.structs.replace(hook, enabled=not hook.enabled) if is_switched(hook, switches) else hook
        for hook in hooks
    ]


def is_switched(hook: Hook, switches: Mapping[str, bool]) -> bool:
    if hook.layer is Layer.FLEET:
        return False
    as_plugin = switches.get(name_whole_plugin(hook.plugin), hook.enabled) if hook.plugin is not None else hook.enabled
    return switches.get(hook.name, as_plugin) != hook.enabled


def is_plugin_allowed(plugins: Collection[str] | None, plugin: str) -> bool:
    """Return whether a plugin is allowed; None allows all."""
    return plugins is None or plugin in plugins
