"""The answers of hooks, and their JSON form for the daemon.

Knows the words and the shape of an answer; does not know events, so it cannot tell which words an event allows.
The type parameter of `Verdict` tells type checkers, and the daemon enforces it.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Annotated, Any, Generic, Literal, Never, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct
from msgspec.structs import replace

from hooklatch_worker.author.ambiguity import find_ambiguity
from hooklatch_worker.author.failures import clip_error_text

__all__ = [
    "WRITE", "Answer", "GarbageError", "Verdict", "Word", "check_plain", "decode_answer", "encode_verdict", "allow",
    "amend", "append", "ask", "claim", "context", "deny", "halt", "inject", "last", "resume", "warn",
]  # fmt: skip

Word: TypeAlias = Literal["allow", "deny", "ask", "halt", "claim"]

C_co = TypeVar("C_co", covariant=True)

WRITE = 'return deny("why"), ask("why"), allow() or None'  # what may take the place of another answer
MAX_INSTEAD = 500  # characters; the record keeps all of it


class GarbageError(Exception):
    """An answer cannot be understood; on a gate it counts as a deny."""

    def __init__(self, message: str) -> None:
        super().__init__(clip_error_text(message))


WIRE_NAMES = {  # of the fields that a method of the same name adds to
    "messages": "inject",
    "texts": "append",
    "resume_reason": "resume",
    "is_last": "last",
    "context_changes": "context",
}


class Verdict(Struct, Generic[C_co], frozen=True, repr_omit_defaults=True, omit_defaults=True, rename=WIRE_NAMES):
    """The answer of a hook.  Its methods return a new verdict with one addition.

    The type parameter names the parts in use (`Verdict[Literal["deny", "inject"]]`), so that type checkers can reject
    those that an event does not allow.  `warn` and `context` are legal everywhere.

    Raises:
        ValueError: a second verdict word is added (`allow().deny(...)`), or `instead` is empty or over 500 characters.
        TypeError: an argument has the wrong type.
    """

    verdict: Word | None = None
    reason: str = ""
    value: object = UNSET
    patch: dict[str, object] | None = None
    messages: tuple[dict[str, object], ...] = ()
    texts: tuple[str, ...] = ()
    resume_reason: str | None = None
    warnings: tuple[str, ...] = ()
    is_last: bool = False
    context_changes: dict[str, object] | None = None
    instead: str | None = None

    def allow(self, reason: str = "") -> "Verdict[C_co | Literal['allow']]":
        """Approve explicitly, as opposed to having no opinion (None)."""
        return self._saying("allow", reason=reason)

    def deny(self, reason: str, *, instead: str | None = None) -> "Verdict[C_co | Literal['deny']]":
        """Refuse; the agent is shown the reason, and `instead`: the whole shell command that it is to run now."""
        return self._saying("deny", reason=reason, instead=instead)

    def ask(self, reason: str, *, instead: str | None = None) -> "Verdict[C_co | Literal['ask']]":
        """Leave the decision to a person; a later deny overrides it.  `instead` is for the agent if they say no."""
        return self._saying("ask", reason=reason, instead=instead)

    def halt(self, reason: str) -> "Verdict[C_co | Literal['halt']]":
        """Stop the whole run, not only this step."""
        return self._saying("halt", reason=reason)

    def claim(self, value: object) -> "Verdict[C_co | Literal['claim']]":
        """Take over and answer with `value`; later hooks are not called."""
        return self._saying("claim", value=value)

    def amend(self, /, **patch: object) -> "Verdict[C_co | Literal['amend']]":
        """Replace the whole values of the named payload keys."""
        return replace(self, patch={**(self.patch or {}), **patch})

    def inject(self, messages: dict[str, Any] | Iterable[dict[str, Any]]) -> "Verdict[C_co | Literal['inject']]":
        """Add one message or several to the conversation: `{"role": ..., "content": ..., "name": ...}`."""
        parts = (cast("dict[str, object]", messages),) if isinstance(messages, dict) else tuple(messages)
        for part in parts:
            _require_message(part)
        return replace(self, messages=(*self.messages, *parts))

    def append(self, text: str) -> "Verdict[C_co | Literal['append']]":
        """Add text to what the model sees of the result."""
        return replace(self, texts=(*self.texts, _require_text(text, "append()")))

    def resume(self, reason: str) -> "Verdict[C_co | Literal['resume']]":
        """Keep the agent working; the reason tells it what remains to be done."""
        return replace(self, resume_reason=_require_text(reason, "resume()"))

    def warn(self, text: str) -> "Verdict[C_co]":
        """Add a line to the decision's warnings, without any other effect."""
        return replace(self, warnings=(*self.warnings, _require_text(text, "warn()")))

    def last(self) -> "Verdict[C_co | Literal['last']]":
        """End the chain: later hooks of this event are not called."""
        return replace(self, is_last=True)

    def context(self, **changes: object) -> "Verdict[C_co]":
        """Change keys of the context that accompanies the payload."""
        return replace(self, context_changes={**(self.context_changes or {}), **changes})

    def _saying(
        self, word: Word, *, reason: str = "", value: object = UNSET, instead: str | None = None
    ) -> "Verdict[C_co]":
        if self.verdict is not None:
            raise ValueError(f"a verdict cannot say both {self.verdict!r} and {word!r}; return one of them")
        if instead is not None:
            instead = _require_text(instead, f"{word}(instead=...)").strip()
            if not 0 < len(instead) <= MAX_INSTEAD:
                raise ValueError(f"instead has {len(instead)} characters; write a command of 1 to {MAX_INSTEAD}")
        return replace(self, verdict=word, reason=_require_text(reason, f"{word}()"), value=value, instead=instead)


_NOTHING: Verdict[Never] = Verdict()

# The functions for authors are bound methods of the empty verdict: one signature, one docstring.
allow = _NOTHING.allow
deny = _NOTHING.deny
ask = _NOTHING.ask
halt = _NOTHING.halt
claim = _NOTHING.claim
amend = _NOTHING.amend
inject = _NOTHING.inject
append = _NOTHING.append
resume = _NOTHING.resume
warn = _NOTHING.warn
last = _NOTHING.last
context = _NOTHING.context


class Answer(Struct, frozen=True, kw_only=True):
    """An answer as the daemon reads it.  `value` and the patch are JSON that is passed on undecoded.

    Created by `decode_answer`: msgspec alone cannot distinguish an absent `value` from null.
    """

    verdict: Word | None = None
    reason: str = ""
    value: Raw | None = None
    patch: dict[str, Raw] | None = None
    inject: list[dict[str, Any]] = []
    append: list[str] = []
    resume: str | None = None
    warnings: list[str] = []
    last: bool = False
    context: dict[str, Any] | None = None
    instead: str | None = None


class _Sent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    verdict: Word | None = None
    reason: str | None = None
    value: Raw = Raw()  # empty if absent: msgspec does not support unions with Raw
    patch: dict[str, Raw] | None = None
    inject: list[dict[str, Any]] | dict[str, Any] | None = None
    append: list[str] | str | None = None
    resume: str | None = None
    warnings: list[str] | None = None
    last: bool = False
    context: dict[str, Any] | None = None
    instead: Annotated[str, Meta(max_length=MAX_INSTEAD, pattern=r"\S")] | None = None


_sent: msgspec.json.Decoder[_Sent | None] = msgspec.json.Decoder(_Sent | None)
_encoder = msgspec.json.Encoder()


def encode_verdict(verdict: object) -> bytes:
    """Encode an answer as JSON, without unset fields; return empty bytes for None, which means no opinion.

    Raises:
        GarbageError: it is not a verdict, or contains something other than plain finite JSON.
    """
    if verdict is None:
        return b""
    if not isinstance(verdict, Verdict):
        raise GarbageError(f"returned a {type(verdict).__name__!r}; {WRITE}")
    answer: Verdict[Any] = verdict  # pyright: ignore[reportUnknownVariableType] - isinstance sees no parameter
    if answer.verdict != "claim" and answer.value is not UNSET:
        answer = replace(answer, value=UNSET)
    for key in ("value", "patch", "messages", "context_changes"):
        if (part := getattr(answer, key)) is not UNSET:
            check_plain(part, key)
    try:
        return _encoder.encode(answer)
    except UnicodeEncodeError:
        raise GarbageError("the answer holds a lone surrogate, which UTF-8 cannot encode") from None
    except RecursionError:
        raise GarbageError("the answer is nested too deep") from None
    # TypeError: a Verdict that was constructed directly; ValueError: an int with more digits than Python converts.
    except (msgspec.MsgspecError, TypeError, ValueError, MemoryError) as error:
        raise GarbageError(f"the answer cannot be written: {error}") from None


def decode_answer(data: bytes) -> Answer:
    """Decode and fully check an answer; empty bytes and null mean no opinion.

    Raises:
        GarbageError: it is not a valid answer.
    """
    try:
        if not data or (sent := _sent.decode(data)) is None:
            return Answer()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise GarbageError(f"the answer is not readable: {error}") from None
    except RecursionError:
        raise GarbageError("the answer is not readable: nested too deep") from None
    except MemoryError:
        raise GarbageError("the answer is not readable: too big for memory") from None
    # Raw checks neither UTF-8 nor the range of numbers, and nothing so far has checked for repeated keys.
    fault = find_ambiguity(data)
    if fault is not None:
        raise GarbageError(f"the answer is not readable: {fault}")
    return Answer(
        verdict=sent.verdict, reason=sent.reason or "", value=sent.value or None, patch=sent.patch,
        inject=[sent.inject] if isinstance(sent.inject, dict) else sent.inject or [],
        append=[sent.append] if isinstance(sent.append, str) else sent.append or [], resume=sent.resume,
        warnings=sent.warnings or [], last=sent.last, context=sent.context, instead=sent.instead,
    )  # fmt: skip


def check_plain(value: object, where: str) -> None:
    """Check that a value survives a round trip through JSON; `where` names it in the error.

    Raises:
        GarbageError: a part is not a dict with str keys, list, tuple, str, bool, int, finite float or None.
    """
    try:
        _check_plain(value, where)
    except RecursionError:
        raise GarbageError(f"{where} is nested too deep, or holds itself") from None


def _check_plain(value: object, where: str) -> None:
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return
    if kind is float:
        if not isfinite(cast("float", value)):
            raise GarbageError(f"{where} holds {value!r}, which JSON cannot express")
    elif isinstance(value, dict):
        for key, part in cast("dict[object, object]", value).items():
            if type(key) is not str:
                raise GarbageError(f"{where} has the key {key!r}; keys must be str")
            _check_plain(part, where)
    elif isinstance(value, (list, tuple)):
        for part in cast("Iterable[object]", value):
            _check_plain(part, where)
    else:
        raise GarbageError(f"{where} holds a {kind.__name__!r}, which is not plain JSON")


def _require_text(text: str, word: str) -> str:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - authors may not type-check
        raise TypeError(f"{word} takes a str, not a {type(text).__name__!r}")
    return text


def _require_message(message: object) -> None:
    if not isinstance(message, dict):
        raise TypeError(f"inject() takes a dict or several, not a {type(message).__name__!r}")
    fields = cast("dict[object, object]", message)
    if not isinstance(fields.get("role"), str) or "content" not in fields:
        raise TypeError("a message to inject needs 'role' (a str) and 'content'")
