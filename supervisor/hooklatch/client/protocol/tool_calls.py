"""One tool call from its first hook to its result, as steps.

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
from typing import Any, TypedDict

import msgspec

from hooklatch.client.protocol.decisions import Decision, refuse_locally
from hooklatch.client.protocol.fires import fire_event
from hooklatch.client.protocol.json_values import encode_plain
from hooklatch.client.protocol.options import GATE
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.protocol.steps import CallFunction, FunctionReturned, RunApart, Steps
from hooklatch.client.protocol.tool_runs import (
    PermissionQuestion,
    ToolRun,
    append_text,
    make_plain_result,
    print_value_as_text,
)
from hooklatch.core.messages import Cause
from hooklatch.core.payload import canonicalize_json

__all__ = ["ToolCall", "ToolOptions"]

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
        """Yield the permit, or the decision that refuses it."""
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
        left_open = (
            None
            if request_decision.verdict == "allow"
            else request_decision
            if request_decision.needs_asking
            else first
        )
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
            return self._refuse("policy", f"approval is needed, and no person can be asked here: {why}", left_open)
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
