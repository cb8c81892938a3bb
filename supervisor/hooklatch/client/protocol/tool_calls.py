"""One tool call from its first hook to its result, as steps, and the question to the host on the way.

pre_tool_use ──deny, halt──────────────────────────────────────▶ refused
     │ ask, or no opinion and a host with a dialog
permission_request ──deny, halt──────────────────────────────▶ refused
     │ changed the input: pre_tool_use is fired again; a refusal or another change ▶ refused
     │ allow, and no ask about the changed input: on
     │ else: ask the host, with the input and the open decision ──anything but True──▶ permission_denied, refused
call the tool ──▶ post_tool_use | post_tool_use_failure ──▶ a ToolRun

A Permit holds the input that it was given for, as JSON, and the tool is called with that and nothing else: an answer
about one input never counts for another one. If guards ask about an input that permission hooks have changed, those
hooks had answered before the ask, so only a person can answer it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

import msgspec

from hooklatch.client.protocol.decisions import Decision, RefusedError, refuse_locally
from hooklatch.client.protocol.exchange import describe_exception
from hooklatch.client.protocol.fires import CallFunction, FunctionReturned, RunApart, Steps, fire_event
from hooklatch.client.protocol.json_values import encode_plain
from hooklatch.client.protocol.options import GATE
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.core.messages import Cause
from hooklatch.core.payload import canonicalize_json
from hooklatch.core.refusal_texts import ASKED
from hooklatch.errors import InvalidPayloadError

__all__ = ["PermissionQuestion", "ToolRun", "make_plain_result", "print_value_as_text", "ToolCall", "ToolOptions"]


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The question to a host's own dialog: may this tool run with this input?

    `decision` is the one that left it open: an ask, whose `reason` says why, or a pass.
    """

    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str | None
    decision: Decision

    @property
    def reason(self) -> str | None:
        """Return why a hook asks; None if none did."""
        return self.decision.reason


class ToolRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one tool call.

    allowed: the tool was called; with `tool_input`, as hooks may have changed it.
    decision: the one that settled whether it may; see `Decision.cause` for why not.
    result: what the tool returned; if that is text, with what hooks appended.
    error: what the tool raised.
    append: what hooks want added to the result, which `as_tool_result` does.
    inject: messages that hooks want put into the conversation.
    halt: a hook, or the session's `denial_breaker`, wants the run to end; `halt_reason` says why.
    context: the free map that is passed from hook to hook, as they left it.
    decisions: all that were made on the way, in order.
    """

    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str | None
    decision: Decision
    allowed: bool
    result: Any = None
    error: Exception | None = None
    append: str | None = None
    inject: list[dict[str, Any]] = []
    halt: bool = False
    halt_reason: str | None = None
    context: dict[str, Any] | None = None
    decisions: list[Decision] = []

    @property
    def is_error(self) -> bool:
        """Return whether the tool was refused, or failed."""
        return not self.allowed or self.error is not None

    def unwrap(self) -> Any:
        """Return the result.

        Raises:
            RefusedError: the tool was refused.
            Exception: the exception that the tool itself raised.
        """
        if not self.allowed:
            raise RefusedError(self.decision)
        if self.error is not None:
            raise self.error
        return self.result

    def as_tool_result(self, tool_use_id: str | None = None) -> dict[str, Any]:
        """Return the block that answers the call in the Messages API, also after a refusal or a failure.

        Text stays text, and a list of content blocks stays one; anything else becomes its JSON, else its `str`.

        Raises:
            ValueError: the call's id was given neither here nor to `run_tool`.
        """
        known = tool_use_id or self.tool_use_id
        if known is None:
            raise ValueError("the block needs the tool_use_id of the call; give it here or to run_tool")
        block = {"type": "tool_result", "tool_use_id": known, "content": self.content}
        return {**block, "is_error": True} if self.is_error else block

    @property
    def content(self) -> str | list[dict[str, Any]]:
        """Return the content for the model: the reason of a refusal, the error of a failure, otherwise the result."""
        if not self.allowed:
            return self.decision.for_model
        if self.error is not None:
            return append_text(print_value_as_text(self.error), self.append)
        if isinstance(self.result, str):
            return self.result
        if is_blocks(self.result):
            return [*self.result, *([{"type": "text", "text": self.append}] if self.append else [])]
        return append_text("" if self.result is None else format_tool_result(self.result), self.append)


def append_text(text: str, append: str | None) -> str:
    """Append what hooks add to a result, after a blank line."""
    return "\n\n".join(part for part in (text, append) if part)


def make_plain_result(value: object) -> object:
    """Return a tool's result as hooks get it: unchanged if it is plain JSON, else as text."""
    try:
        encode_plain(value, "the result")
    except InvalidPayloadError:
        return print_value_as_text(value)
    return value


def format_tool_result(value: object) -> str:
    try:
        return bytes(encode_plain(value, "the result")).decode()
    except InvalidPayloadError:
        return print_value_as_text(value)


def print_value_as_text(value: object) -> str:
    """Return any value as text that can be sent; an exception with its type's name."""
    try:
        text = describe_exception(value) if isinstance(value, BaseException) else str(value)
    except Exception:
        text = type(value).__name__
    return text.encode("utf-8", "replace").decode()  # it may contain a lone surrogate


def is_blocks(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    parts = cast("list[object]", value)
    return all(isinstance(part, dict) and "type" in part for part in parts)


DENIED = "permission_denied"
FAILED = "post_tool_use_failure"


class ToolOptions(TypedDict, total=False):
    """The options of a tool call; every key is optional.

    tool_use_id: the model's id of the call; hooks see it, and `ToolRun.as_tool_result` needs it.
    only_on_ask: the permission callback is for calls that a hook asks about; others run unless they are refused.
    envelope: what the host knows of the moment: turn, agent_id, agent_type, metadata.
    context: a free map that is passed from hook to hook; `ToolRun.context` is the result.
    """

    tool_use_id: str | None
    only_on_ask: bool
    envelope: Mapping[str, Any] | None
    context: Mapping[str, Any] | None


class Permit(msgspec.Struct, frozen=True):
    """Permission to call the tool with this input, and with no other; `decision` is the one that gave it."""

    decision: Decision
    tool_input: msgspec.Raw


class ToolCall:
    """One call, with its input as hooks have changed it so far, and the decisions that were made on the way."""

    def __init__(
        self,
        state: SessionState,
        name: str,
        tool_input: Mapping[str, Any],
        function: Callable[[dict[str, Any]], object],
        permission: Callable[[PermissionQuestion], object] | None,
        options: ToolOptions,
    ) -> None:
        """Take a call.

        Raises:
            InvalidPayloadError: the input is not plain finite JSON.
            ValueError: the session speaks a dialect, which has tool events of its own.
        """
        if state.dialect is not None:
            raise ValueError(f"run_tool fires the catalogue's own events, and this session speaks {state.dialect!r}")
        self._state = state
        self._name = name
        self._input = encode_plain(dict(tool_input), "tool_input")
        self._function = function
        self._permission = permission
        self._options = options
        self._context = options.get("context")
        self._decisions: list[Decision] = []

    def run(self) -> Steps[ToolRun]:
        """Take the call from its first hook to its result."""
        permit = yield from self._permit()
        if not isinstance(permit, Permit):
            return self._end(permit)
        decision = permit.decision
        try:
            returned: FunctionReturned = yield CallFunction(self._function, decode_tool_input(permit.tool_input))
        except Exception as error:
            self._state.breaker.reset()
            after = yield from self._fire(FAILED, {"error": print_value_as_text(error), "is_interrupt": False})
            return self._end(decision, allowed=True, error=error, append=after.append)
        except BaseException as error:
            if not self._state.is_closed:
                yield RunApart(self._notify(FAILED, {"error": print_value_as_text(error), "is_interrupt": True}))
            raise
        self._state.breaker.reset()
        success = {"tool_response": make_plain_result(returned.result), "duration_ms": returned.duration_ms}
        after = yield from self._fire("post_tool_use", success)
        result = append_text(returned.result, after.append) if isinstance(returned.result, str) else returned.result
        return self._end(decision, allowed=True, result=result, append=after.append)

    def _permit(self) -> Steps[Permit | Decision]:
        answer = yield from self._judge()
        if isinstance(answer, Decision):
            is_ours = answer.is_local and answer.cause != "no_daemon"  # after its own refusals the daemon fires it
            if is_ours or self._state.emits(DENIED):
                yield from self._notify(DENIED, {"reason": answer.reason, "denial": {"code": answer.cause}})
        return answer

    def _judge(self) -> Steps[Permit | Decision]:
        first = yield from self._fire(GATE)
        self._take_patch(first)
        if first.is_refusal:
            return first
        if not self._must_be_asked(first):
            return Permit(first, self._input)
        request_decision = yield from self._fire("permission_request")
        if request_decision.is_refusal:
            return request_decision
        left_open: Decision | None = None
        if request_decision.verdict != "allow":
            left_open = request_decision if request_decision.needs_asking else first
        if self._take_patch(request_decision):
            again = yield from self._fire(GATE)
            if again.is_refusal:
                return again
            if self._take_patch(again):
                return self._refuse("unsettled", "guards changed the input again after permission hooks had", again)
            left_open = again if again.needs_asking else left_open
        return Permit(request_decision, self._input) if left_open is None else (yield from self._ask_host(left_open))

    def _must_be_asked(self, first: Decision) -> bool:
        wants_all = self._permission is not None and not self._options.get("only_on_ask", False)
        return first.needs_asking or (first.verdict == "pass" and wants_all)

    def _ask_host(self, left_open: Decision) -> Steps[Permit | Decision]:
        if self._permission is None:
            why = left_open.reason or "a hook asks for it"
            return self._refuse("policy", f"{ASKED}no person can be asked here: {why}", left_open)
        question = PermissionQuestion(
            tool_name=self._name,
            tool_input=self._tool_input(),
            tool_use_id=self._options.get("tool_use_id"),
            decision=left_open,
        )
        returned: FunctionReturned = yield CallFunction(self._permission, question)
        answer = returned.result
        if answer is True:
            return Permit(left_open, self._input)
        reason = print_value_as_text(answer) if isinstance(answer, str) and answer else "permission was not given"
        return self._refuse("policy", reason, left_open)

    def _refuse(self, cause: Cause, reason: str, because_of: Decision) -> Decision:
        refusal = refuse_locally("permission_request", cause, reason, because_of)
        self._decisions.append(refusal)
        return refusal

    def _take_patch(self, decision: Decision) -> bool:
        """Take the input of a patch, and return whether it differs from the one before."""
        if not decision.patch or "tool_input" not in decision.patch:
            return False
        before, self._input = self._input, encode_plain(decision.patch["tool_input"], "tool_input")
        return canonicalize_json(before) != canonicalize_json(self._input)

    def _tool_input(self) -> dict[str, Any]:
        return decode_tool_input(self._input)

    def _fire(self, event: str, fields: Mapping[str, object] | None = None) -> Steps[Decision]:
        decision = yield from fire_event(self._state, event, self._arguments(fields or {}), wait=True)
        assert isinstance(decision, Decision)
        if not isinstance((decision.patch or {}).get("tool_input", {}), dict):
            decision = refuse_locally(event, "protocol", "hooks want an input that is not an object", decision)
        self._decisions.append(decision)
        self._context = decision.context or self._context
        return decision

    def _notify(self, event: str, fields: Mapping[str, object]) -> Steps[object]:
        return fire_event(self._state, event, self._arguments(fields), wait=False)

    def _arguments(self, fields: Mapping[str, object]) -> dict[str, Any]:
        tool_use_id = self._options.get("tool_use_id")
        payload: dict[str, object] = {"tool_name": self._name, "tool_input": self._tool_input(), **fields}
        if tool_use_id is not None:
            payload["tool_use_id"] = tool_use_id
        envelope = self._options.get("envelope")
        return {"payload": payload, "context": self._context, "envelope": envelope, "call_id": tool_use_id}

    def _end(self, decision: Decision, *, allowed: bool = False, **outcome: Any) -> ToolRun:
        halting = next((decision for decision in self._decisions if decision.verdict == "halt"), None)
        breaker = self._state.breaker
        return ToolRun(
            tool_name=self._name,
            tool_input=self._tool_input(),
            tool_use_id=self._options.get("tool_use_id"),
            decision=decision,
            allowed=allowed,
            inject=[message for made_decision in self._decisions for message in made_decision.inject],
            halt=halting is not None or breaker.is_open,
            halt_reason=halting.reason if halting is not None else breaker.reason if breaker.is_open else None,
            context=None if self._context is None else dict(self._context),
            decisions=self._decisions,
            **outcome,
        )


def decode_tool_input(tool_input: msgspec.Raw) -> dict[str, Any]:
    return msgspec.json.decode(tool_input, type=dict[str, Any])
