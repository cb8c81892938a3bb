"""The base of all adapters: one program's events, its documents in, and our decisions out in a form that it honours.

    the host's document ─▶ read() ─▶ HostEvent ─▶ make_fire() ─▶ HostFire ─▶ a fire ─▶ FireDecision
    FireDecision ─▶ fit() ─▶ the nearest stricter one that this host can express ─▶ render() ─▶ HookOutput

    host = find_host("codex")
    event = host.read("PreToolUse", document, environ)
    output = host.answer(event, decision)

Pure: no sockets, no files, no clock.  An adapter is a table and three functions.  This module reads documents, names
their common parts, and refuses documents that two parsers could read differently.  It knows no hook.

A gate is answered with a refusal unless a decision says otherwise, and `failure` is that refusal, in the form that the
host really honours.  Every other event fails in silence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

import msgspec

from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.messages import Cause, FireDecision
from hooklatch.core.payload import MAX_PAYLOAD, Payload
from hooklatch.core.refusal_texts import NOT_RUN, WITHHELD
from hooklatch.hosts.fitting import (
    decode_patch,
    explain_decision,
    explain_to_person,
    fit_decision,
    turn_into_deny,
)
from hooklatch_worker.author.ambiguity import decode_checked
from hooklatch_worker.author.tools import UnclearToolError, arguments, find_tool_kind_by_name

__all__ = [
    "CONTEXT_WAIT", "Call", "GATE_LIMIT", "HookOutput", "Host", "HostEvent", "HostEventSpec", "HostFire", "HostTool",
    "Kind", "STAGES", "UnreadableError", "add_to_output", "call_key", "encode_document", "make_context_event_spec",
    "make_denied_decision", "make_envelope_keys", "make_gate_event_spec", "make_notice_event_spec",
    "make_result_event_spec", "print_result",
]  # fmt: skip

Kind: TypeAlias = Literal["gate", "context", "notify"]
Call: TypeAlias = Literal["begins", "goes_on", "ends"]

GATE_LIMIT: Final = 610.0  # seconds: a fire may take 600, and our refusal has to come before the host goes on
HOST_MARGIN: Final = 5.0  # seconds between our own deadline and the host's
CONTEXT_WAIT: Final = 5.0  # seconds that an agent waits for text at an event that can refuse nothing
FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
ABOUT_TOOLS: Final = ("pre_tool_use", "permission_request")  # at other gates the person reads the reason itself
# The stages of a tool call by the events that report them.
STAGES: Final[Mapping[str, Call]] = {
    "pre_tool_use": "begins", "permission_request": "goes_on", "tool_result": "ends", "post_tool_use": "ends",
    "post_tool_use_failure": "ends",
}  # fmt: skip
MARK: Final = b"\xef\xbb\xbf"  # a byte order mark; some programs on Windows write one


class HostEventSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a host.

    `event` is its canonical name, "" if it has none and is not fired.  `enforces` has the answers that the host really
    enforces there: allow, deny, ask, halt, patch, context (text for the model), resume (the agent is kept working).
    `patch` has the keys of the payload that a hook may change.  `limit` is how many seconds the host waits.

    `alters_host`: the host behaves differently when a hook is installed here, even if every hook passes.  So it is
    installed only where a hook needs it.  `renamed` maps canonical keys of the payload to the host's own.

    `after` is the spec of a second event that the host reports by the same document: it is fired after this one.
    """

    event: str = ""
    kind: Kind = "notify"
    enforces: frozenset[str] = frozenset()
    patch: frozenset[str] = frozenset()
    limit: float = 30.0
    alters_host: bool = False
    renamed: Mapping[str, str] = {}
    after: HostEventSpec | None = None

    @property
    def fired(self) -> frozenset[str]:
        """Return the events that are fired by one of its documents."""
        return frozenset({self.event, *(self.after.fired if self.after is not None else ())} - {""})

    @property
    def wait(self) -> float:
        """Return how many seconds a forwarder waits for the daemon; 0 if it only hands the event over."""
        if self.kind == "notify":
            return 0.0
        margin = min(HOST_MARGIN, self.limit / 4)
        if self.kind == "gate" or "resume" in self.enforces:  # whether to keep working may take a run of the tests
            return self.limit - margin
        return min(CONTEXT_WAIT, self.limit - margin)


def make_gate_event_spec(event: str, can: str = "", patch: str = "", **more: Any) -> HostEventSpec:
    """Return the spec of an event that a hook can refuse."""
    keys = frozenset(patch.split())
    words = {"deny", *can.split(), *(["patch"] if keys else [])}
    return HostEventSpec(event=event, kind="gate", enforces=frozenset(words), patch=keys, limit=GATE_LIMIT, **more)


def make_context_event_spec(event: str, can: str = "context", **more: Any) -> HostEventSpec:
    """Return the spec of an event that cannot be refused, but at which the host uses an answer."""
    return HostEventSpec(event=event, kind="context", enforces=frozenset(can.split()), limit=GATE_LIMIT, **more)


def make_result_event_spec(after: HostEventSpec, can: str = "") -> HostEventSpec:
    """Return the spec of the event at which the host takes another result of a tool, before `after` reports it."""
    return make_gate_event_spec("tool_result", can, "tool_response", renamed=after.renamed, after=after)


def make_notice_event_spec(event: str = "", limit: float = 30.0, **more: Any) -> HostEventSpec:
    """Return the spec of an event at which the host waits for no answer; without a canonical name it is not fired."""
    return HostEventSpec(event=event, kind="notify", limit=limit, **more)


class HookOutput(msgspec.Struct, frozen=True):
    """The exit of the host's hook process: a code, one document or nothing, and text for a person."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""


class HostTool(msgspec.Struct, frozen=True):
    """The tool call in a document; `name` is the host's own, `server` and `tool` an MCP server's."""

    name: str
    input: dict[str, Any]
    kind: str = ""
    server: str = ""
    tool: str = ""


class HostEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event as a host sent it: its whole document, and its spec with the canonical name.

    `fields` are the document's keys with their values byte for byte.  `document` has them decoded, and is empty while
    hooks run: decoded values can take many times a document's size.
    """

    name: str
    spec: HostEventSpec
    document: Mapping[str, Any] = {}
    fields: dict[str, msgspec.Raw]
    environ: Mapping[str, str] = {}

    @property
    def event(self) -> str:
        return self.spec.event

    @property
    def is_gate(self) -> bool:
        return self.spec.kind == "gate"

    def text(self, *keys: str) -> str | None:
        """Return the first of these keys of the document that is a text with something in it."""
        for key in keys:
            value = self.document.get(key)
            if isinstance(value, str) and value:
                return value
        return None

    def decode_value(self, key: str) -> object:
        """Return the value of a key of the document, None if there is none."""
        raw = self.fields.get(key)
        return None if raw is None else msgspec.json.decode(raw)


class HostFire(msgspec.Struct, frozen=True, kw_only=True):
    """The fire of an event, with its payload, and its relation to others of the same tool call.

    `after` is the event that is fired after it for the same document.  `call` is the stage of a call that has no id,
    and `call_key` is equal for all stages of that call.  `same_call` is equal for all events that report one stage of a
    call again.
    """

    params: FireParams
    payload: Payload
    after: str = ""
    call: Call | None = None
    call_key: str = ""
    same_call: str = ""


class UnreadableError(ValueError):
    """A document that cannot be judged; `event` is its host event, as far as that is known."""

    def __init__(self, message: str, event: str | None = None, cause: Cause = "protocol") -> None:
        super().__init__(message)
        self.event = event
        self.cause: Cause = cause


def make_envelope_keys(**keys: str) -> dict[str, tuple[str, ...]]:
    """Return the keys of a document that hold a field of the envelope: those of most programs, changed by `keys`."""
    most = {"session_id": "session_id", "agent_id": "agent_id", "agent_type": "agent_type", "turn": "turn_id"}
    return {field: tuple(names.split()) for field, names in {**most, **keys}.items()}


class Host:
    """One host program: its names, its events, and the forms of its documents and answers.

    A subclass gives the table and `render`.  It overrides other methods only where the program differs from most.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    events: ClassVar[Mapping[str, HostEventSpec]]

    # The keys of most programs' documents.
    name_keys: ClassVar[tuple[str, ...]] = ("hook_event_name",)
    call_keys: ClassVar[tuple[str, ...]] = ("tool_use_id",)
    envelope_keys: ClassVar[Mapping[str, tuple[str, ...]]] = make_envelope_keys()
    tool_keys: ClassVar[tuple[str, ...]] = ("tool_name",)
    input_keys: ClassVar[tuple[str, ...]] = ("tool_input",)
    joins_calls: ClassVar[bool] = True  # whether it reports what ran as it asked, so that the two can be compared
    folder_keys: ClassVar[tuple[str, ...]] = ("cwd",)  # a text, or a list whose first one is meant
    merges_input: ClassVar[bool] = False  # whether it puts a changed input over the old one
    has_text_inputs: ClassVar[bool] = False  # whether it may send a tool's input as JSON in a string
    metadata_keys: ClassVar[tuple[str, ...]] = ("transcript_path", "permission_mode", "model")
    project_variables: ClassVar[tuple[str, ...]] = ("CLAUDE_PROJECT_DIR",)
    # The verdicts on tools whose reason it shows the person by itself, as it tells the model.
    shown_verdicts: ClassVar[frozenset[str]] = frozenset({"deny", "ask", "halt"})

    # -- in ------------------------------------------------------------------------------------------------------

    def read(self, event: str | None, document: bytes, environ: Mapping[str, str]) -> HostEvent:
        """Read a host's document; `event` is the event for which the forwarder was installed.

        Raises:
            UnreadableError: it is not a JSON object that all parsers read alike, or is for another event.
        """
        text = document.removeprefix(MARK).strip(b" \t\r\n")
        if event is not None and event not in self.events:
            raise UnreadableError(f"{self.title} has no event {event[:100]!a} that hooklatch knows", event)
        if len(text) > MAX_PAYLOAD:
            raise UnreadableError(
                f"the event has {len(text)} bytes, over the limit of {MAX_PAYLOAD}",
                event or self.find_gate_name(text),
                "payload",
            )
        decoded, problem = decode_checked(text) if text.startswith(b"{") else (None, "it is not a JSON object")
        if problem is not None:
            gate = event or self.find_gate_name(text)
            raise UnreadableError(f"the document that {self.title} sent cannot be read: {problem}", gate)
        fields, values = FIELDS.decode(text), cast("dict[str, Any]", decoded)
        name = self.read_event_name(event, values)
        return HostEvent(name=name, spec=self.events[name], document=values, fields=fields, environ=environ)

    def read_event_name(self, event: str | None, document: Mapping[str, Any]) -> str:
        """Return the event of a document, which must be the event for which the forwarder was installed.

        Raises:
            UnreadableError: it names another event, or an unknown one.
        """
        named = next((document[key] for key in self.name_keys if key in document), None)
        if named is None and event is not None:
            return event
        if not isinstance(named, str):
            raise UnreadableError("the document does not name its event", event)
        if event is not None and named != event:
            # Refused in the form of a gate if either of the two is one.
            gate = named if named in self.events and self.events[named].kind == "gate" else event
            reason = f"the hook for {event} was called for {named[:100]!a}; install hooklatch again"
            raise UnreadableError(reason, gate)
        if named not in self.events:
            raise UnreadableError(f"{self.title} has no event {named[:100]!a} that hooklatch knows", event)
        return named

    def find_gate_name(self, text: bytes) -> str | None:
        """Return a gate that an unreadable document names literally.  It only chooses the form of the refusal."""
        for key in self.name_keys:
            for gate, spec in self.events.items():
                if spec.kind == "gate" and f'"{key}":"{gate}"'.encode() in text.replace(b'": "', b'":"'):
                    return gate
        return None

    def make_fire(self, native: HostEvent) -> HostFire:
        """Return the fire of an event: the document whole, with canonical keys beside the host's own.

        Raises:
            UnreadableError: it cannot be judged, e.g. because a name is too long, or a tool's input is unclear.
        """
        try:
            tool = self.tool(native)
            fields, encode = dict(native.fields), msgspec.json.encode
            for key, value in self.list_added_keys(native, tool).items():
                fields[key] = msgspec.Raw(encode(value))
            data = encode(fields)
            if len(data) > MAX_PAYLOAD and fields.pop("tool_args", None) is not None:
                data = encode(fields)  # it repeats the input; a hook that needs it fails without it, which is a deny
            if len(data) > MAX_PAYLOAD:
                raise UnreadableError(f"the event is over the limit of {MAX_PAYLOAD} bytes", native.name, "payload")
            envelope = msgspec.convert(self.envelope(native), EnvelopeParams)
            given = next((native.document[key] for key in self.call_keys if key in native.document), None)
            call_id = msgspec.convert(given, str | int | None)
            call, shared_key = (None, "") if call_id is not None else self.find_call_stage(native, tool)
        except UnclearToolError as error:
            raise UnreadableError(str(error), native.name, "payload") from None
        except msgspec.ValidationError as error:
            raise UnreadableError(f"the document cannot be fired: {error}", native.name, "payload") from None
        if isinstance(call_id, str) and len(call_id) > 200:
            call_id = hashlib.sha256(call_id.encode()).hexdigest()
        params = FireParams(native.spec.event, msgspec.Raw(data), call_id=call_id, envelope=envelope)
        after = native.spec.after.event if native.spec.after is not None else ""
        return HostFire(
            params=params, payload=Payload(data, decoded=fields), after=after, call=call, call_key=shared_key
        )  # fmt: skip

    def tool(self, native: HostEvent) -> HostTool | None:
        """Return the tool call in a document, None if there is none."""
        document = native.document
        name = next((document[key] for key in self.tool_keys if key in document), None)
        tool_input: object = next((document[key] for key in self.input_keys if key in document), dict[str, Any]())
        if self.has_text_inputs and isinstance(tool_input, str):
            name, (tool_input, fault) = native.text(*self.tool_keys), decode_checked(tool_input.encode())
            if name is None or not isinstance(tool_input, dict):
                raise UnclearToolError(f"the input of a tool is not a JSON object: {fault or 'another value'}")
        if not isinstance(name, str):
            return None
        if not isinstance(tool_input, dict):
            raise UnclearToolError(f"the input of the tool {name[:100]!a} is not an object")
        return self.classify_tool(native, HostTool(name, cast("dict[str, Any]", tool_input)))

    def classify_tool(self, native: HostEvent, tool: HostTool) -> HostTool:
        """Return a tool with its kind and, if it belongs to an MCP server, the name of that server."""
        if tool.name.startswith("mcp__"):
            _, server, name = (*tool.name.split("__", 2), "")[:3]
            return msgspec.structs.replace(tool, kind="mcp", server=server, tool=name)
        return msgspec.structs.replace(tool, kind=find_tool_kind_by_name(tool.name))

    def list_added_keys(self, native: HostEvent, tool: HostTool | None) -> dict[str, Any]:
        """Return the keys that the payload has beside the host's own."""
        document, added = native.document, dict[str, Any]()
        for ours, theirs in native.spec.renamed.items():
            if theirs in document and ours not in document:
                added[ours] = native.fields[theirs]
        if tool is not None:
            if "tool_name" not in document:
                added["tool_name"] = tool.name
            if not isinstance(document.get("tool_input"), dict):
                added["tool_input"] = tool.input
            former = {"server": tool.server, "tool": tool.tool} if tool.kind == "mcp" else None
            added["tool_kind"] = tool.kind
            added["tool_args"] = arguments(tool.kind, tool.input, former=former)
        return added

    def envelope(self, native: HostEvent) -> dict[str, Any]:
        """Return the envelope: who fired and where; a cwd that is not a text is "", which matches no folder."""
        document, environ = native.document, native.environ
        metadata = {key: document[key] for key in self.metadata_keys if key in document}
        fields: dict[str, Any] = {"host": self.name, "metadata": metadata}
        for field, keys in self.envelope_keys.items():
            for key in keys:
                if isinstance(text := document.get(key), str) and text:
                    fields[field] = text
                    break
        if (folder := next((value for key in self.project_variables if (value := environ.get(key))), None)) is not None:
            fields["began_in"] = folder
        if given := {key: document[key] for key in self.folder_keys if key in document}:
            key, folder = next(((key, value) for key, value in given.items() if value), ("", ""))
            first = (
                cast("list[object]", folder)[0] if isinstance(folder, list) and key != "cwd" else cast("object", folder)
            )
            fields["cwd"] = first if isinstance(first, str) else ""
        return fields

    def read_session_id(self, native: HostEvent) -> str | None:
        """Return the id of the session of an event whose document is not kept decoded; None if it has none."""
        values = (native.decode_value(key) for key in self.envelope_keys["session_id"])
        return next((value for value in values if isinstance(value, str) and value), None)

    def find_call_stage(self, native: HostEvent, tool: HostTool | None) -> tuple[Call | None, str]:
        """Return the stage of a tool call without an id, and the key that all its stages share."""
        if self.call_keys:
            return None, ""
        return STAGES.get(native.event), call_key(native.text(*self.envelope_keys["session_id"]), tool)

    # -- out -----------------------------------------------------------------------------------------------------

    def answer(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        """Return the output for a decision, or for the nearest stricter one that the host can express."""
        return self.express(native, self.fit(native, decision), None)

    def express(self, native: HostEvent, decision: FireDecision, after: HookOutput | None) -> HookOutput:
        """Return the output for a decision that the host can express; `after` is that for the event behind it."""
        if native.spec.after is None:
            return self.render(native, decision)
        after, result = after or self.silence(native.name), cast("object", None)
        if decision.verdict != "pass":
            text = WITHHELD + explain_decision(decision).removeprefix(NOT_RUN)
            result = self.withhold(native.decode_value(self.find_result_key(native)), text)
        elif decision.patch:
            result = decode_patch(decision)["tool_response"]
        else:
            return after
        return self.render_result(native, decision, result, after)

    def find_result_key(self, native: HostEvent) -> str:
        """Return the key of the document that has what the tool gave."""
        return native.spec.renamed.get("tool_response", "tool_response")

    def withhold(self, response: object, text: str) -> object:
        """Return what the model reads in place of a withheld result."""
        return text

    def render_result(self, native: HostEvent, decision: FireDecision, result: object, after: HookOutput) -> HookOutput:
        """Return the host's form of another result."""
        raise NotImplementedError

    def fit(self, native: HostEvent, decision: FireDecision) -> FireDecision:
        """Return the nearest stricter decision that this host can express, with a warning for each difference."""
        decision = fit_decision(self.title, native.name, native.spec, decision)
        changed = decode_patch(decision).get("tool_input") if self.merges_input else None
        if changed is not None and is_shortened(native.decode_value("tool_input"), changed):
            reason = f"{self.title} merges a changed input, and cannot remove the keys that a hook removed"
            return turn_into_deny(decision, reason)
        return decision

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        """Return the host's form of a decision that it can express."""
        raise NotImplementedError

    def make_person_text(self, native: HostEvent, decision: FireDecision) -> str:
        """Return what the person is shown beside what the host shows by itself; "" where a call simply passes."""
        is_shown = native.event not in ABOUT_TOOLS or decision.verdict in self.shown_verdicts
        lines = [] if is_shown else [explain_to_person(decision)]
        lines += [f"hooklatch: {each}" for each in decision.warnings if each not in (decision.reason or "")]
        return "\n".join(filter(None, lines))

    def failure(self, event: str | None, cause: Cause, reason: str) -> HookOutput:
        """Return the host's form of a refusal on a gate, or on an unknown event; otherwise silence."""
        spec = self.events.get(event) if event is not None else None
        if event is None or spec is None:
            return self.refusal(event, explain_decision(make_denied_decision("", cause, reason)))
        if spec.kind != "gate":
            return self.silence(event)
        native, denial = HostEvent(name=event, spec=spec, fields={}), make_denied_decision(spec.event, cause, reason)
        return self.express(native, denial, None)

    def refusal(self, event: str | None, reason: str) -> HookOutput:
        """Return a refusal without a decision, for an event that may be unknown."""
        # Every program that was measured honours this, where it honours anything.
        return HookOutput(exit_code=2, stderr=f"{reason}\n")

    def silence(self, event: str | None) -> HookOutput:
        """Return the output that has no effect on the host."""
        return HookOutput()


def is_shortened(before: object, after: object) -> bool:
    """Return whether a key, at any depth, is missing after a change."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    old, new = cast("dict[str, object]", before), cast("dict[str, object]", after)
    return any(key not in new or is_shortened(value, new[key]) for key, value in old.items())


def add_to_output(output: HookOutput, **keys: object) -> HookOutput:
    """Return an output whose document has these keys too."""
    document: dict[str, Any] = json.loads(output.stdout or "{}")
    return msgspec.structs.replace(output, stdout=encode_document({**document, **keys}))


def print_result(result: object) -> str:
    """Return a result as the text that a host without other forms takes."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def make_denied_decision(event: str, cause: Cause, reason: str) -> FireDecision:
    """Return the deny that takes the place of a missing decision."""
    return FireDecision(
        decision_id="", event=event, verdict="deny", cause=cause, reason=reason, layer=None, hook=None, retryable=False,
        patch=None, payload_digest=None, append=None, resume=None, value=None, revision=None, duration_ms=0.0,
    )  # fmt: skip


def call_key(session: str | None, tool: HostTool | None) -> str:
    """Return the key of a tool call in its session, "" without a tool; equal calls have the same key."""
    if tool is None:
        return ""
    identity = msgspec.json.encode([session, tool.name, tool.input], order="sorted")
    return hashlib.sha256(identity).hexdigest()[:32]


def encode_document(document: Mapping[str, object]) -> str:
    """Return one line of ASCII JSON with its line end; "" for an empty document."""
    return json.dumps(document, separators=(",", ":"), default=unwrap_raw) + "\n" if document else ""


def unwrap_raw(value: object) -> object:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
