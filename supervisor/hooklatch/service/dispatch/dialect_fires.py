"""The fires and the served hooks in another system's format.  Knows dialects; decides nothing.

It is imported when the first dialect is used (`dialects.py`).

native event, native keys ─▶ canonical fires, in order ─▶ decisions ─▶ the answer in that system's format
canonical call of a served hook ─▶ native keys ─▶ the client's native answer ─▶ a canonical answer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from hooklatch.core.call import Call
from hooklatch.core.fire_params import FireParams, StatedEnvelope
from hooklatch.core.hooks.definitions import NativeHook
from hooklatch.core.hooks.registry import ServedTarget
from hooklatch.core.limits import CallId
from hooklatch.core.messages import CallOutcome, FireDecision
from hooklatch.core.payload import Payload, PayloadError
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.dialects.dialect import Dialect, UnknownNativeEventError, adapt_spec, is_due, order_dialect_hooks
from hooklatch.dialects.reading import translate_answer
from hooklatch.dialects.registration import read_registration
from hooklatch.dialects.rendering import render_decision
from hooklatch.dialects.translation import (
    TranslatedEvent,
    carry_patch,
    is_same,
    translate_to_canonical,
    translate_to_native,
)
from hooklatch.processes.fire_context import FireContext
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.fires import DialectPlan
from hooklatch.service.dispatch.runners import HookRunner
from hooklatch.service.registry.sessions import AgentSession
from hooklatch_worker.author.ambiguity import find_ambiguity
from hooklatch_worker.author.verdicts import GarbageError

if TYPE_CHECKING:
    from hooklatch.core.answers import AcceptedFire

__all__ = ["DialectFires", "call_in_dialect", "decode_payload", "read_native_hooks"]

# A canonical event, and the params with the session's fields from its payload.
DueFire: TypeAlias = tuple[TranslatedEvent, FireParams]


class DialectFires:
    """The fires of native events, which a session fires in its dialect."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def fire(
        self, dialect: Dialect, params: FireParams, session: AgentSession | None, fault: str | None = None
    ) -> dict[str, Any] | AcceptedFire:
        """Return the first decision on a native event, with the others in it."""
        payload = decode_payload(params)
        due_fires = self._translate(dialect, params, payload, fault)
        if not isinstance(due_fires, PayloadError) and not params.wait:
            return self._fire_later(due_fires, session)
        decisions = await self._decide(dialect, due_fires, params, session)
        first, *others = (decode_raw(decision) for decision in decisions)
        rendered = render_decision(dialect, params.event, first, others, payload)
        warnings = [*first.get("warnings", []), *rendered.warnings]
        answer = {**first, "rendered": rendered.value}
        if warnings:
            answer["warnings"] = warnings
        if others:
            answer["followed_by"] = others
        return answer

    async def decide(
        self, dialect: Dialect, params: FireParams, session: AgentSession | None, fault: str | None = None
    ) -> list[FireDecision]:
        """Return the decisions on a native event, the deciding one first."""
        due_fires = self._translate(dialect, params, decode_payload(params), fault)
        return await self._decide(dialect, due_fires, params, session)

    async def _decide(
        self,
        dialect: Dialect,
        due_fires: list[DueFire] | PayloadError,
        params: FireParams,
        session: AgentSession | None,
    ) -> list[FireDecision]:
        if isinstance(due_fires, PayloadError):
            return [await self._refuse(dialect, params, session, str(due_fires))]
        return await self._fire_in_order(dialect, due_fires, session)

    def _translate(
        self, dialect: Dialect, params: FireParams, payload: dict[str, Any], fault: str | None
    ) -> list[DueFire] | PayloadError:
        """Return the canonical fires of a native one, or the error for which it is refused."""
        try:
            due_fires = [
                (translated, fill_envelope(params, translated))
                for translated in translate_to_canonical(dialect, params.event, payload)
            ]
            return due_fires if fault is None else PayloadError(fault)
        except UnknownNativeEventError as error:
            raise RpcError(ErrorCode.UNKNOWN_EVENT, str(error)) from None
        except PayloadError as error:
            return error

    async def _fire_in_order(
        self, dialect: Dialect, due_fires: Sequence[DueFire], session: AgentSession | None
    ) -> list[FireDecision]:
        decisions: list[FireDecision] = []
        for translated, params in due_fires:
            if not is_due(translated.feed, [decision.verdict for decision in decisions]):
                continue
            # The native event has one payload: what an earlier fire changed of it, the next one judges.
            for earlier in decisions:
                translated = carry_patch(translated, decode_raw(earlier.patch))
            spec = adapt_spec(translated.feed, self._dispatcher.registries.find_event(translated.event))
            plan = DialectPlan(spec, partial(order_dialect_hooks, dialect))
            decisions.append(await self._dispatcher.fire(translate_params(params, translated), session, plan=plan))
        return decisions

    def _fire_later(self, due_fires: Sequence[DueFire], session: AgentSession | None) -> AcceptedFire:
        """Start the fires that do not depend on another one's decision."""
        started = [
            self._dispatcher.fire_later(translate_params(params, translated), session)
            for translated, params in due_fires
            if translated.feed.when == "always"
        ]
        return started[0]

    async def _refuse(
        self, dialect: Dialect, params: FireParams, session: AgentSession | None, reason: str
    ) -> FireDecision:
        event = dialect.events[dialect.resolve(params.event)].feeds[0].event
        return await self._dispatcher.refuse(
            self._dispatcher.registries.find_event(event), "payload", reason, params, session
        )


def decode_payload(params: FireParams) -> dict[str, Any]:
    try:
        payload: object = msgspec.json.decode(params.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"the payload cannot be read: {error}") from None
    if not isinstance(payload, dict):
        raise RpcError(ErrorCode.INVALID_PARAMS, "payload must be an object")
    return cast("dict[str, Any]", payload)


def translate_params(params: FireParams, translated: TranslatedEvent) -> FireParams:
    payload = msgspec.Raw(msgspec.json.encode(translated.payload))
    return msgspec.structs.replace(params, event=translated.event, payload=payload)


def fill_envelope(params: FireParams, translated: TranslatedEvent) -> FireParams:
    """Return the params with the session's fields of the payload in their envelope.

    Raises:
        PayloadError: one of these fields cannot be used, or the envelope has another value.
    """
    stated = translated.stated
    if params.default_cwd is not None and params.envelope.cwd is None and "cwd" not in stated:
        params = msgspec.structs.replace(
            params, envelope=msgspec.structs.replace(params.envelope, cwd=params.default_cwd)
        )
    if not stated:
        return params
    given = {name: value for name, value in msgspec.structs.asdict(params.envelope).items() if value is not None}
    given |= {"call_id": params.call_id} if params.call_id is not None else {}
    for name in given:
        if name in stated and not is_same(given[name], stated[name]):
            values = f"{given[name]!r:.80} with the fire, {stated[name]!r:.80} in its payload"
            raise PayloadError(f"two values are given for {name}: {values}")
    try:
        envelope = msgspec.convert({**stated, **given}, StatedEnvelope)
        call_id = msgspec.convert(stated.get("call_id", params.call_id), CallId | None)
    except msgspec.ValidationError as error:
        raise PayloadError(f"what the payload says of its session cannot be used: {error}") from None
    for name in ("cwd", "began_in"):
        if name in stated and (not stated[name].startswith("/") or "\0" in stated[name]):
            raise PayloadError(f"{name} must be an absolute path, not {stated[name]!r:.80}")
    return msgspec.structs.replace(params, envelope=envelope, call_id=call_id)


def read_native_hooks(dialect: Dialect, table: Mapping[str, Any], events: Mapping[str, object]) -> list[NativeHook]:
    """Read a table that a client of a dialect registers; one for an event of the catalogue `events` stays as it is."""
    event = table.get("event")
    if isinstance(event, str) and event in events and not dialect.has_event(event):
        return [NativeHook(dict(table), "")]
    return read_registration(dialect, table)


async def call_in_dialect(
    dialect: Dialect, target: HookRunner, call: Call, fire: FireContext, deadline: float
) -> CallOutcome:
    """Call a hook that was registered in a dialect, and translate its answer.

    A client is called in the dialect's format.  A worker's function gets our event, and only its answer may be in the
    dialect's format.
    """
    own = call.hook.target
    payload = translate_to_native(dialect, own.native, msgspec.json.decode(call.payload.data), context=call.context)
    if isinstance(own, ServedTarget):
        call = translate_call(dialect, call, payload)
    return translate_outcome(dialect, own.native, payload, await target.call(call, fire, deadline))


def translate_call(dialect: Dialect, call: Call, native_payload: dict[str, Any]) -> Call:
    """Return a call whose payload and merged patches have the dialect's keys."""
    payload = Payload(msgspec.json.encode(native_payload), call.payload.version)
    merged = decode_raw(call.merged)
    if merged:
        merged = translate_to_native(dialect, call.hook.target.native, merged)
    return msgspec.structs.replace(call, payload=payload, merged=merged)


def decode_raw(value: Any) -> Any:
    """Return plain values, decoding JSON that was not decoded yet."""
    return msgspec.to_builtins(value, enc_hook=msgspec.json.decode)


def translate_outcome(dialect: Dialect, native: str, payload: dict[str, Any], outcome: CallOutcome) -> CallOutcome:
    """Translate an answer from a dialect's format; an answer that has no meaning there is a protocol error."""
    if outcome.cause != "policy":
        return outcome
    fault = find_ambiguity(outcome.answer or b"null")
    if fault is not None:
        text = f"the answer cannot be read: {fault}"
        return msgspec.structs.replace(outcome, outcome="unread", cause="protocol", message=text, answer=b"")
    try:
        answer = translate_answer(dialect, native, msgspec.json.decode(outcome.answer or b"null"), shown=payload)
        encoded = msgspec.json.encode(answer)
    except (GarbageError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return msgspec.structs.replace(outcome, outcome="unread", cause="protocol", message=str(error), answer=b"")
    return msgspec.structs.replace(outcome, outcome="unread", answer=encoded)
