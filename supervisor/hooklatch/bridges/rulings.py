"""The translation of a decision into a ruling for an SDK: run with this, ask a person, or refuse with this text.

Pure: knows decisions and the abilities of an SDK; knows no SDK, no session and no clock.  A decision that the SDK
cannot express becomes the nearest stricter one, and the text says so.

| decision                            | ruling                                                     |
|-------------------------------------|------------------------------------------------------------|
| pass, allow                         | run with the input as it is                                |
| pass, allow, with another input     | run with that one; where the SDK cannot: refuse            |
| ask                                 | ask; where the SDK cannot, or cannot show the input: refuse|
| deny, halt, any other               | refuse                                                     |
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec

from hooklatch.client.protocol.decisions import Decision
from hooklatch.core.payload import canonicalize_json
from hooklatch.core.refusal_texts import ASKED, add_instead
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = [
    "SdkAbilities", "AskRuling", "RefuseRuling", "Ruling", "ProceedRuling", "UnreadableInputError",
    "read_object", "make_ruling",
]  # fmt: skip


class SdkAbilities(msgspec.Struct, frozen=True, kw_only=True):
    """The abilities of an SDK at one of its points; `name` is its name in refusals.

    rewrites: the input can be replaced.
    asks: there is a form for an approval, and this program handles it.
    asks_about_rewrites: that form shows the input, also if a hook has replaced it.
    """

    name: str
    rewrites: bool = False
    asks: bool = False
    asks_about_rewrites: bool = False


class ProceedRuling(msgspec.Struct, frozen=True, kw_only=True):
    """The action may run, with `value`.  `is_approved`: a hook allowed it, so that the SDK need not ask by itself."""

    value: Any
    is_rewritten: bool = False
    is_approved: bool = False
    decision: Decision | None = None


class AskRuling(msgspec.Struct, frozen=True, kw_only=True):
    """A person has to approve it, with `value`; `text` says why."""

    text: str
    value: Any
    is_rewritten: bool = False
    decision: Decision | None = None


class RefuseRuling(msgspec.Struct, frozen=True, kw_only=True):
    """The action must not run; `text` is for the model.  `halts`: the whole run should end."""

    text: str
    halts: bool = False
    decision: Decision | None = None


Ruling: TypeAlias = ProceedRuling | AskRuling | RefuseRuling


class UnreadableInputError(ValueError):
    """The input of a tool is not one JSON object that every parser reads alike."""


def make_ruling(decision: Decision, key: str, value: object, abilities: SdkAbilities) -> Ruling:
    """Translate the decision on an event whose payload has `value` at `key`."""
    if decision.verdict not in ("pass", "allow", "ask"):
        return RefuseRuling(text=decision.for_model, halts=decision.verdict == "halt", decision=decision)
    patch = decision.patch or {}
    if foreign := patch.keys() - {key}:
        return make_refusal(f"a hook wants another {min(foreign)}, and {abilities.name} has no place for it", decision)
    wanted = patch.get(key, value)
    if isinstance(value, dict) is not isinstance(wanted, dict) or isinstance(value, str) is not isinstance(wanted, str):
        return make_refusal(f"a hook wants a {key} of another type", decision)
    is_rewritten = canonicalize_json(msgspec.json.encode(wanted)) != canonicalize_json(msgspec.json.encode(value))
    if decision.verdict == "ask":
        return make_ask_ruling(decision, key, wanted, is_rewritten, abilities)
    if is_rewritten and not abilities.rewrites:
        return make_refusal(f"a hook wants another {key}, and {abilities.name} cannot replace it", decision)
    chosen = wanted if is_rewritten else value
    return ProceedRuling(
        value=chosen, is_rewritten=is_rewritten, is_approved=decision.verdict == "allow", decision=decision
    )


def make_ask_ruling(
    decision: Decision, key: str, wanted: object, is_rewritten: bool, abilities: SdkAbilities
) -> AskRuling | RefuseRuling:
    why = add_instead(decision.reason or "a hook asks for it", decision.instead)
    if not abilities.asks:
        return make_refusal(f"{ASKED}{abilities.name} cannot ask a person here: {why}", decision)
    if is_rewritten and not abilities.asks_about_rewrites:
        text = f"{ASKED}{abilities.name} cannot show the {key} that a hook wants instead: {why}"
        return make_refusal(text, decision)
    return AskRuling(text=why, value=wanted, is_rewritten=is_rewritten, decision=decision)


def make_refusal(text: str, decision: Decision) -> RefuseRuling:
    return RefuseRuling(text=text, decision=decision)


def read_object(text: object) -> dict[str, Any]:
    """Return a tool's input as an object, parsed if it is JSON text.  None and an empty text become an empty object.

    Raises:
        UnreadableInputError: it is not an object, or parsers differ on it, so that the SDK may run what no guard saw.
    """
    if text is None or text in ("", b""):
        return {}
    if isinstance(text, dict):
        return cast("dict[str, Any]", text)
    if not isinstance(text, str | bytes):
        raise UnreadableInputError("the input is not a JSON object")
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        raise UnreadableInputError("the input contains a lone surrogate, which UTF-8 cannot encode") from None
    if (problem := find_ambiguity(data)) is not None:
        raise UnreadableInputError(f"the input is not JSON that all parsers read alike: {problem}")
    value: object = msgspec.json.decode(data)
    if not isinstance(value, dict):
        raise UnreadableInputError("the input is not a JSON object")
    return cast("dict[str, Any]", value)
