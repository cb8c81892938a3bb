"""The data model of a dialect: another system's event names, keys, axes and words.

    native event ──feeds──▶ canonical events        (an EventMapping: when, which keys, which axes)
    native answer ◀─words, patch, outputs── decision (Answers, written in the dialect's style)

Independent of dispatch.  A dialect can make an event stricter or order it differently; it cannot change an event's
model, remove a refusal, or map a gate to something that cannot refuse: `validate_dialect` enforces that, and
`adapt_spec` applies only what tightens or reorders.  A name that no event has raises UnknownNativeEventError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue, Combine, EventSpec, Flow, View
from hooklatch.core.hooks.definitions import InvalidHookError, read_definition
from hooklatch.core.hooks.registry import Hook, Layer
from hooklatch.core.text import suggest_name
from hooklatch_worker.author.failures import clip_error_text

__all__ = [
    "OUTPUT_WORDS", "REFUSALS", "Answers", "Dialect", "EventMapping", "InvalidDialectError", "Matching",
    "NativeEvent", "Style", "UnknownNativeEventError", "validate_dialect", "feed", "keep_names", "order_dialect_hooks",
    "is_due", "adapt_spec",
]  # fmt: skip

Matching: TypeAlias = Literal["none", "search", "full", "exact_or_search"]
Style: TypeAlias = Literal["merged", "tagged", "exit", "results", "threaded"]
REFUSALS = ("deny", "halt")  # verdicts that stop the action; an ask only may
OUTPUT_WORDS = ("inject", "append", "resume")
VERDICTS = ("allow", "deny", "ask", "halt", "claim")


class InvalidDialectError(ValueError):
    """A dialect is invalid; the reason says what to write instead."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = clip_error_text(reason)
        super().__init__(f"dialect {clip_error_text(name)!r}: {self.reason}")


class UnknownNativeEventError(LookupError):
    """A dialect has no event with this name."""

    def __init__(self, dialect: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"{dialect} has no event {clip_error_text(name)!r}{suggest_name(name, known)}")


class EventMapping(msgspec.Struct, frozen=True, kw_only=True):
    """One canonical event that a native event maps to.  Axes that are None keep the catalogue's value.

    Paths are keys joined by dots.  A native path of several keys is copied; the object that contains it stays in place.
    """

    event: str
    when: Literal["always", "passed"] = "always"  # "passed": only if no feed before it was refused
    keys: dict[str, str] = {}  # native path -> canonical path
    gathers: str | None = None  # the canonical field that takes every native key not named in `keys`
    nested: str | None = None  # the native key that may hold all that `gathers` takes, in place of keys of its own
    fills: dict[str, str] = {}  # canonical field -> canonical path to copy it from if the host did not send it
    defaults: dict[str, Any] = {}  # canonical field -> its value if the host did not send it
    flow: Flow | None = None
    view: View | None = None
    combine: Combine | None = None
    ends_at: frozenset[str] | None = None
    verdicts: frozenset[str] = frozenset()  # of the canonical event, set by `feed`
    match: str | None = None  # of the canonical event

    @property
    def fails_closed(self) -> bool:
        return "deny" in self.verdicts


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parts that the answer to a native event can express, and their keys."""

    words: dict[str, str] = {}  # verdict -> native word
    patch: dict[str, str] = {}  # canonical path -> native key
    outputs: dict[str, str] = {}  # inject, append, resume -> native key

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.patch or self.outputs)


class NativeEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event of the other system.  It is answered with the decision on its first feed."""

    feeds: tuple[EventMapping, ...]
    answers: Answers = Answers()
    model: str | None = None  # the other system's name for its execution model, if it has several
    aliases: tuple[str, ...] = ()  # other spellings of the name, for example in its configuration files


class Dialect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything specific to one system."""

    name: str
    style: Style
    events: dict[str, NativeEvent]
    matcher: Matching = "none"
    matcher_elsewhere: Literal["refused", "ignored"] = "refused"  # on events without a tool
    matcher_field: str | None = None  # set if a matcher is a map: the key that holds the pattern
    event_key: str | None = None  # the payload key that repeats the event's name
    registration: dict[str, str] = {}  # key of a native hook definition -> canonical key
    unkept: dict[str, str] = {}  # keys of a native hook definition that are rejected, with the reason
    shell: dict[str, str] = {}  # keys that a definition of a command has here if it does not say other
    timeout_unit: Literal["s", "ms"] = "s"
    structured: dict[str, str] = {}  # halt, inject, patch, append -> key in a second form of the answer
    on_halt: dict[str, Any] = {}  # additional keys of an answer that halts the run
    layers: tuple[str, ...] = ()  # the firing order of layers; empty: the standard order
    by_priority: bool = False  # sort by priority across all layers
    plugins_without_list: Literal["all", "none"] = "all"  # which plugins apply if a session names none

    def resolve(self, name: str) -> str:
        """Return the name of an event, given its name or an alias."""
        if name in self.events:
            return name
        for own, event in self.events.items():
            if name in event.aliases:
                return own
        raise UnknownNativeEventError(self.name, name, self.events)

    def has_event(self, name: str) -> bool:
        return name in self.events or any(name in event.aliases for event in self.events.values())

    def event(self, name: str) -> NativeEvent:
        """Return the event with this name or alias."""
        return self.events[self.resolve(name)]


def feed(event: str, keys: dict[str, str] | None = None, **axes: Any) -> EventMapping:
    """Return a feed of a standard event; its verdicts and match field come from the catalogue."""
    spec = Catalogue.standard()[event]
    return EventMapping(event=event, keys=keys or {}, verdicts=spec.verdicts, match=spec.match, **axes)


def keep_names(*names: str) -> dict[str, str]:
    """Return the map of keys that the other system calls as the catalogue does."""
    return {name: name for name in names}


def validate_dialect(dialect: Dialect, catalogue: Catalogue | None = None) -> Dialect:
    """Return the dialect unchanged if it is complete and does not loosen any event.

    Raises:
        InvalidDialectError: it is invalid; the text names the event and the problem.
    """
    catalogue = catalogue or Catalogue.standard()
    if not dialect.name:
        raise InvalidDialectError("", 'it has no name; write name = "mine"')
    if not dialect.events:
        raise InvalidDialectError(dialect.name, "it has no events")
    try:
        read_definition({**dialect.shell, "id": "any", "event": "any", "command": "true"})
    except InvalidHookError as error:
        raise InvalidDialectError(dialect.name, f"shell: {error.reason}") from None
    spellings: set[str] = set()
    for name, event in dialect.events.items():
        for spelling in (name, *event.aliases):
            if spelling in spellings:
                raise InvalidDialectError(dialect.name, f"two of its events are called {spelling!r}")
            spellings.add(spelling)
        problem = _find_event_problem(dialect, event, catalogue)
        if problem is not None:
            raise InvalidDialectError(dialect.name, f"event {name!r}: {problem}")
    return dialect


def _find_event_problem(dialect: Dialect, event: NativeEvent, catalogue: Catalogue) -> str | None:
    if not event.feeds:
        return "it feeds no event of the catalogue"
    problem = _find_word_problem(event.answers.words)
    if problem is not None:
        return problem
    for mapping in event.feeds:
        spec = catalogue.get(mapping.event)
        if spec is None:
            return f"there is no event {mapping.event!r} to feed{suggest_name(mapping.event, catalogue)}"
        problem = _find_mapping_problem(mapping, spec) or _find_key_problem(mapping)
        if problem is not None:
            return problem
        if spec.fails_closed and not any(word in event.answers.words for word in REFUSALS):
            return f"it feeds the gate {spec.name}, so its answers need a word for deny or halt"
    for mapping in event.feeds[1:]:
        if catalogue[mapping.event].fails_closed:  # among several feeds, its refusal would not be the host's answer
            return (
                f"it feeds the gate {mapping.event} beside other events; a gate must come first, and be the only gate"
            )
    if event.feeds[0].when != "always":
        return 'its first feed cannot depend on feeds before it; write when = "always"'
    return _find_answer_problem(dialect, event.answers, [catalogue[mapping.event] for mapping in event.feeds])


def _find_mapping_problem(mapping: EventMapping, spec: EventSpec) -> str | None:
    if mapping.verdicts != spec.verdicts or mapping.match != spec.match:
        return f"its feed of {spec.name} has other verdicts than the catalogue; make it with feed()"
    if spec.model != "notify" and mapping.flow == "concurrent":
        return f"the hooks of {spec.name} run in order; only a notify event can be concurrent"
    for word in mapping.ends_at or ():
        if word not in VERDICTS:
            return f"ends_at names the unknown verdict {word!r}"
    return None


def _find_key_problem(mapping: EventMapping) -> str | None:
    if any(not all(path.split(".")) for path in (*mapping.keys, *mapping.keys.values())):
        return "a path of its key map has an empty part"
    paths = list(mapping.keys.values())
    above = {path[: dot.start()] for path in paths for dot in re.finditer(r"\.", path)}
    for path in paths:
        if paths.count(path) > 1 or path in above:
            return f"the canonical path {path!r} occurs twice in its key map, or contains another path"
    if mapping.gathers is not None and mapping.gathers in mapping.keys.values():
        return f"{mapping.gathers!r} gathers the other keys, so no key can be mapped to it"
    if mapping.nested is not None and (mapping.gathers is None or mapping.nested in mapping.keys):
        return f"{mapping.nested!r} is to hold what is gathered: write gathers too, and no other meaning of the key"
    return None


def _find_word_problem(words: dict[str, str]) -> str | None:
    for word, native in words.items():
        if word not in VERDICTS:
            return f"unknown verdict {word!r}{suggest_name(word, VERDICTS)}"
        if native in ("", "ok"):
            return f"{word} cannot be written as {native!r}, which means that all is well"
    return None


def _find_answer_problem(dialect: Dialect, answers: Answers, specs: list[EventSpec]) -> str | None:
    patchable = {key for spec in specs for key in spec.patch}
    legal = {output for spec in specs for output in spec.outputs}
    for path in answers.patch:
        if path.partition(".")[0] not in patchable:
            return f"hooks of {specs[0].name} cannot change {path!r} (they can change {', '.join(sorted(patchable))})"
    for output in answers.outputs:
        if output not in OUTPUT_WORDS:
            return f"unknown output {output!r}; there are {', '.join(OUTPUT_WORDS)}"
        if output not in legal:
            return f"hooks of {specs[0].name} cannot answer with {output}"
    written = [*answers.patch.values(), *answers.outputs.values()]
    written += list(answers.words.values()) if dialect.style in ("merged", "tagged") else []
    repeated_key = next((key for key in written if written.count(key) > 1 and dialect.style != "exit"), None)
    return f"the key {repeated_key!r} of its answer would have two meanings" if repeated_key else None


AXES = ("flow", "view", "combine", "ends_at")


def adapt_spec(feed: EventMapping, spec: EventSpec) -> EventSpec:
    """Return the spec with the feed's axes in place of its own; model, verdicts, outputs and patch keys stay.

    Raises:
        ValueError: the feed is for another event, or would run the hooks of a gate concurrently.
    """
    if feed.event != spec.name:
        raise ValueError(f"a feed of {feed.event} sets no axes of {spec.name}")
    if feed.flow == "concurrent" and spec.model != "notify":
        raise ValueError(f"the hooks of {spec.name} run in order; only a notify event can be concurrent")
    changes: dict[str, Any] = {axis: getattr(feed, axis) for axis in AXES if getattr(feed, axis) is not None}
    return msgspec.structs.replace(spec, **changes) if changes else spec


def is_due(feed: EventMapping, verdicts: Sequence[str]) -> bool:
    """Return whether to fire a feed, given the verdicts of the feeds before it."""
    return feed.when == "always" or all(verdict in ("pass", "allow", "claim") for verdict in verdicts)


def order_dialect_hooks(dialect: Dialect, hooks: Sequence[Hook]) -> tuple[Hook, ...]:
    """Return all hooks, sorted into the firing order of that system, with the fleet's hooks first."""
    if dialect.by_priority:
        return tuple(sorted(hooks, key=lambda hook: (hook.layer is not Layer.FLEET, -hook.priority)))
    if not dialect.layers:
        return tuple(hooks)
    ranks = {label: rank for rank, label in enumerate(dialect.layers)}
    return tuple(sorted(hooks, key=lambda hook: rank_hook(hook, ranks)))


def rank_hook(hook: Hook, ranks: Mapping[str, int]) -> int:
    return -1 if hook.layer is Layer.FLEET else ranks.get(hook.layer.label, len(ranks))
