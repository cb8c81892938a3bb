"""The events that a host can fire, and the legal answers of hooks to each.

A single table; nothing else in the core distinguishes events by name.  Fields and descriptions are taken from the event
classes that hooks receive.  Does not know hooks, dialects or a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hooklatch.core.tables import InvalidTableError
from hooklatch_worker.author.events import EVENT_CLASSES
from hooklatch_worker.author.failures import clip_error_text

__all__ = ["Catalogue", "EventDefinition", "EventSpec", "Field"]

Model: TypeAlias = Literal["gate", "notify", "amend", "claim"]
Flow: TypeAlias = Literal["sequential", "concurrent"]
View: TypeAlias = Literal["threaded", "original"]
Combine: TypeAlias = Literal["first_wins", "last_wins"]

WORDS: Final = {"A": "allow", "D": "deny", "K": "ask", "H": "halt", "C": "claim"}
OUTPUTS: Final = {"i": "inject", "a": "append", "r": "resume", "v": "value"}
MAX_TIMEOUT: Final = 600  # seconds; a larger number is most likely in milliseconds


class Field(msgspec.Struct, frozen=True):
    """A payload field of an event, with its type as text."""

    name: str
    type: str


class EventSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The properties of one event.  `warn` and `context` are legal on every event and not listed."""

    name: str
    model: Model
    flow: Flow
    view: View
    combine: Combine | None
    verdicts: frozenset[str]
    outputs: frozenset[str]
    patch: frozenset[str]
    on_refusal: str | None
    timeout: float
    fields: tuple[Field, ...]
    match: str | None
    when: str
    ends_at: frozenset[str] = frozenset({"deny", "halt", "claim"})  # verdicts that end a sequential chain

    @cached_property
    def is_gate(self) -> bool:
        """True if its hooks run in order and can refuse."""
        return self.model == "gate"

    @cached_property
    def fails_closed(self) -> bool:
        """True if a failed hook counts as a deny.  It follows from the event's verdicts, so no setting changes it."""
        return "deny" in self.verdicts

    @property
    def allows_last(self) -> bool:
        """True if a hook may end the chain; never on a gate, where that would skip the remaining guards."""
        return self.flow == "sequential" and not self.is_gate


class EventDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event as an operator writes it, limited to the properties that operators may choose."""

    name: Annotated[str, Meta(examples=["deploy_requested"])]
    model: Model
    verdicts: list[str] = []
    outputs: list[str] = []
    patch: list[str] = []
    match: str | None = None
    combine: Combine | None = None
    view: View | None = None
    timeout: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT, extra={"note": "seconds, not milliseconds"})] = 30.0
    fields: dict[str, str] | list[str] = []
    when: str = ""

    def __post_init__(self) -> None:
        problem = _find_name_problem(self.name) or _find_word_problem(self) or _find_model_problem(self)
        if (problem := problem or _find_field_problem(self)) is not None:
            raise InvalidTableError(problem)

    def named_fields(self) -> tuple[Field, ...]:
        """Return its fields with the operator's types; others are a text if they are matched, otherwise anything."""
        if isinstance(self.fields, dict):
            return tuple(Field(name, text) for name, text in self.fields.items())
        if not self.fields and self.match is not None:
            return (Field(self.match, "str"),)
        return tuple(Field(name, "str" if name == self.match else "Any") for name in self.fields)


class Catalogue(Mapping[str, EventSpec]):
    """All events by name, in the order of the table, custom ones last.  Immutable.

    `specs` has the same events in a faster mapping, for the look-up of each fire.
    """

    def __init__(self, specs: Iterable[EventSpec]) -> None:
        self.specs = MappingProxyType({spec.name: spec for spec in specs})

    @classmethod
    def standard(cls) -> Catalogue:
        """Return the catalogue without custom events."""
        return _STANDARD

    def __getitem__(self, name: str) -> EventSpec:
        return self.specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    @cached_property
    def harmless(self) -> frozenset[str]:
        """The events that cannot refuse anything, even if all their hooks fail."""
        return frozenset(name for name, spec in self.specs.items() if not spec.fails_closed)

    def with_custom(self, definitions: Iterable[EventDefinition]) -> Catalogue:
        """Return this catalogue extended by the operator's own events.

        Raises:
            InvalidTableError: a definition reuses a name.
        """
        specs = dict(self.specs)
        for definition in definitions:
            if definition.name in specs:
                reason = "there is an event of that name; choose another"
                raise InvalidTableError(reason, table=f"event {clip_error_text(definition.name)!r}")
            specs[definition.name] = _build_spec(definition)
        return Catalogue(specs.values())


def _suggest_known(word: str, known: Iterable[str]) -> str:
    choices = list(known)
    nearest = get_close_matches(word, choices, n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"write one of {', '.join(choices)}"


def _build_spec(definition: EventDefinition, on_refusal: str | None = None) -> EventSpec:
    is_merging = definition.model == "amend" and definition.patch
    return EventSpec(
        name=definition.name,
        model=definition.model,
        flow="concurrent" if definition.model == "notify" else "sequential",
        view=definition.view or ("original" if definition.combine == "first_wins" else "threaded"),
        combine=definition.combine or ("last_wins" if is_merging else None),
        verdicts=frozenset(definition.verdicts),
        outputs=frozenset(definition.outputs) | ({"value"} if definition.model == "claim" else set[str]()),
        patch=frozenset(definition.patch),
        on_refusal=on_refusal,
        timeout=definition.timeout,
        fields=definition.named_fields(),
        match=definition.match,
        when=definition.when,
    )


def _find_name_problem(name: str) -> str | None:
    if name.isascii() and name.isidentifier() and name == name.lower() and not name.startswith("_"):
        return None
    return "a name is lower-case words joined by underscores, as in 'deploy_requested'"


def _find_word_problem(definition: EventDefinition) -> str | None:
    words, outputs = WORDS.values(), OUTPUTS.values()
    for word in definition.verdicts:
        if word in outputs:
            return f'{word!r} is not a verdict; write outputs = ["{word}"]'
        if word == "amend":
            return "'amend' is not a verdict; name the keys that hooks may change in patch"
        if word not in words:
            return f"unknown verdict {word!r}; {_suggest_known(word, words)}"
    for output in definition.outputs:
        if output not in outputs:
            return f"unknown output {output!r}; {_suggest_known(output, outputs)}"
    return None


def _find_model_problem(definition: EventDefinition) -> str | None:
    model, verdicts = definition.model, definition.verdicts
    refusals = [word for word in verdicts if word in ("deny", "ask", "allow")]
    if model == "gate" and "deny" not in verdicts:
        return "a gate that cannot deny cannot fail closed; put 'deny' into verdicts, or write another model"
    if model != "gate" and refusals:
        return f'only a gate can say {refusals[0]!r}; write model = "gate", or take it out of verdicts'
    if model == "claim" and "claim" not in verdicts:
        return 'its hooks could never claim; write verdicts = ["claim"]'
    if model != "claim" and ("claim" in verdicts or "value" in definition.outputs):
        return 'only a claim event is answered with a value; write model = "claim", or take that out'
    if model not in ("gate", "amend") and definition.patch:
        return f'the hooks of a {model} event change nothing; write model = "amend", or take patch out'
    if model != "amend" and definition.combine is not None:
        return 'combine says how an amend event merges patches; write model = "amend", or take it out'
    if model != "amend" and definition.view is not None:
        return 'view is for amend events, others have a fixed one; write model = "amend", or take it out'
    return None


def _find_field_problem(definition: EventDefinition) -> str | None:
    names = [field.name for field in definition.named_fields()]
    if definition.match is not None and definition.match not in names:
        return f"match does not name one of its fields: {definition.match!r}; {_suggest_known(definition.match, names)}"
    if not all([*names, *definition.patch]):
        return "a field has an empty name; write the key that it has in the payload"
    return None


def _build_row(
    name: str, model: Model, letters: str = "", *, patch: str = "", on_refusal: str | None = None, **axes: Any
) -> EventSpec:
    event_class = EVENT_CLASSES[name]
    definition = EventDefinition(
        name=name,
        model=model,
        verdicts=[WORDS[letter] for letter in letters if letter in WORDS],
        outputs=[OUTPUTS[letter] for letter in letters if letter in OUTPUTS],
        patch=patch.split(),
        fields=dict(event_class.__payload_fields__),
        when=(event_class.__doc__ or "").strip(),
        **axes,
    )
    return _build_spec(definition, on_refusal)


QUICK: Final = 5.0  # seconds, for events that an action waits for before it starts; other events get 30 s

# Verdicts and outputs are abbreviated to letters, see WORDS and OUTPUTS.
_STANDARD: Final = Catalogue(
    [
        _build_row("session_start", "notify", "Hi", match="source"),
        _build_row("session_end", "notify"),
        _build_row("user_prompt_submit", "gate", "DKHi", patch="prompt params", match="prompt", timeout=QUICK),
        _build_row("user_prompt_expansion", "gate", "DKH", match="command_name", timeout=QUICK),
        _build_row(
            "prompt_build", "amend", patch="prepend_system append_system override_system", combine="first_wins",
            timeout=QUICK,
        ),
        _build_row("pre_iteration", "amend", "Hi"),
        _build_row("pre_model", "gate", "DHi", patch="request", match="model_id", timeout=QUICK),
        _build_row("post_model", "amend", patch="response reasoning", match="model_id"),
        _build_row("model_request", "notify", match="model_id"),
        _build_row("model_response", "notify", match="model_id"),
        _build_row("tool_selection", "gate", "D", patch="tool_name", match="tool_name", timeout=QUICK),
        _build_row(
            "pre_tool_use", "gate", "ADKHi", patch="tool_input", match="tool_name", timeout=QUICK,
            on_refusal="permission_denied",
        ),
        _build_row(
            "permission_request", "gate", "ADKH", patch="tool_input permissions", match="tool_name", timeout=QUICK,
            on_refusal="permission_denied",
        ),
        _build_row("permission_denied", "notify", "Hi", match="tool_name"),
        _build_row("post_tool_use", "notify", "Hia", match="tool_name"),
        _build_row("post_tool_use_failure", "notify", "Hia", match="tool_name"),
        _build_row("post_tool_batch", "notify", "Hi"),
        _build_row("tool_result", "gate", "DH", patch="tool_response", match="tool_name"),
        _build_row("tool_path", "notify", match="tool_name"),
        _build_row("call_mismatch", "notify", match="cause"),
        _build_row("stop", "notify", "Hr"),
        _build_row("stop_failure", "notify"),
        _build_row("subagent_start", "gate", "DKHi", patch="prompt personality_id", match="agent_type", timeout=QUICK),
        _build_row("subagent_started", "notify", "i", match="agent_type"),
        _build_row("subagent_stop", "notify", "Hir", match="agent_type"),
        _build_row("pre_compact", "gate", "DKHi", match="trigger"),
        _build_row("compact_stage", "notify", "Hi"),
        _build_row("post_compact", "notify", "Hi"),
        _build_row("notification", "notify", "Hi", match="notification_type"),
        _build_row("task_created", "gate", "DK", timeout=QUICK),
        _build_row("task_completed", "notify", "r"),
        _build_row("teammate_idle", "notify", "r"),
        _build_row("config_change", "gate", "DK", match="source", timeout=QUICK),
        _build_row("worktree_create", "gate", "DK", patch="worktree_path", match="name"),
        _build_row("worktree_remove", "gate", "DK", timeout=QUICK),
        _build_row("pre_model_switch", "gate", "ADK", match="to_model", timeout=QUICK),
        _build_row("elicitation", "gate", "ADK", patch="content", match="mcp_server_name", timeout=QUICK),
        _build_row("elicitation_result", "gate", "DK", patch="content", match="mcp_server_name", timeout=QUICK),
        _build_row(
            "personality_switch", "amend", combine="first_wins", patch="personality_id", match="to", timeout=QUICK
        ),
        _build_row("message_claim", "claim", "C", match="platform", timeout=QUICK),
        _build_row("message_dispatch", "claim", "C", match="platform", timeout=QUICK),
        _build_row("message_send", "amend", combine="first_wins", patch="message", timeout=QUICK),
        _build_row("message_received", "notify"),
        _build_row("message_sent", "notify"),
        _build_row("error_intercept", "claim", "C", match="error_type"),
        _build_row("error_recover", "claim", "C", match="error_type"),
        _build_row("error_transform", "amend", combine="first_wins", patch="message", match="error_type"),
        _build_row("error_log", "notify", match="error_type"),
        _build_row("telemetry", "notify", match="event_type"),
        _build_row("custom_log", "notify", match="event_type"),
        _build_row("metrics", "notify", match="event_type"),
        _build_row("performance", "notify", match="event_type"),
    ]
)  # fmt: skip
