"""The JSON object that guards judge.  Content that no patch changes is kept byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch_worker.author.events import read_tool_arguments
from hooklatch_worker.author.failures import clip_error_text
from hooklatch_worker.author.tools import UnclearToolError, arguments, find_tool_kind_by_name

__all__ = ["MAX_PAYLOAD", "Payload", "PayloadError", "canonicalize_json"]

MAX_PAYLOAD = 8 * 2**20  # bytes; a write tool carries whole files
TOOL_KEYS: Final = frozenset({"tool_name", "tool_input"})
FIELDS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
TEXT: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
SORTED = msgspec.json.Encoder(order="sorted")
NOT_PLAIN = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError)
decode = msgspec.json.Decoder().decode


class PayloadError(ValueError):
    """The bytes are not a JSON object that all parsers read alike."""

    def __init__(self, message: str) -> None:
        super().__init__(clip_error_text(message))


class Payload(msgspec.Struct, eq=False):
    """One version of a payload.  `version` numbers the versions within one fire; equal content keeps its version."""

    data: bytes
    version: int = 0
    decoded: dict[str, msgspec.Raw] | None = None  # its top-level keys, as `fields` returns them
    _digest: str = ""

    @property
    def fields(self) -> dict[str, msgspec.Raw]:
        """The top-level keys with their undecoded values.

        Raises:
            PayloadError: the bytes are not a JSON object.
        """
        if self.decoded is None:
            try:
                self.decoded = FIELDS.decode(self.data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise PayloadError(f"the payload is not a JSON object: {error}") from None
        return self.decoded

    def text(self, key: str) -> str | None:
        """Return a top-level field's value if it is a string, otherwise None."""
        raw = self.fields.get(key)
        if raw is None:
            return None
        try:
            return TEXT.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def with_patch(self, patch: Mapping[str, msgspec.Raw]) -> Payload:
        """Return a version with whole values replaced, or this version if nothing differs in meaning.

        `tool_kind` and `tool_args` follow from the tool, so they change with it.

        Raises:
            PayloadError: the patch cannot be read, or the tool's new input lacks what a tool of its kind needs.
        """
        changed = {key: raw for key, raw in patch.items() if not has_same_meaning(self.fields.get(key), raw)}
        if not changed:
            return self
        fields = {**self.fields, **changed}
        if changed.keys() & TOOL_KEYS:
            fields |= translate_changes(fields, changed)
        return Payload(msgspec.json.encode(fields), self.version + 1, decoded=fields)

    def with_tool_words(self, *, is_gate: bool) -> bytes:
        """Return the data with `tool_kind` and `tool_args`, for a hook whose event does not read them itself.

        Raises:
            PayloadError: at a gate, the tool's input could be read in two ways; at another event it then has no words.
        """
        if not self.fields.keys() >= TOOL_KEYS or self.fields.keys() >= {"tool_kind", "tool_args"}:
            return self.data
        try:
            plain = decode(self.data)
            kind = plain.get("tool_kind") or find_tool_kind_by_name(str(plain["tool_name"]))
            words = {"tool_kind": kind, "tool_args": read_tool_arguments(plain)}
            return msgspec.json.encode({**self.fields, **words})
        except (*NOT_PLAIN, UnclearToolError) as error:
            if not is_gate:
                return self.data
            raise PayloadError(f"the hook could not judge the tool: {error}") from None

    def digest(self) -> str:
        """Return the sha256 of the exact bytes, in hexadecimal."""
        if not self._digest:
            self._digest = hashlib.sha256(self.data).hexdigest()
        return self._digest


def translate_changes(fields: Mapping[str, msgspec.Raw], changed: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Return the kind and the canonical arguments of a changed tool, where the payload has them."""
    try:
        translated: dict[str, msgspec.Raw] = {}
        kind: object = msgspec.json.decode(fields["tool_kind"]) if "tool_kind" in fields else None
        if kind is not None and "tool_name" in changed:
            kind = find_tool_kind_by_name(msgspec.json.decode(changed["tool_name"], type=str))
            translated["tool_kind"] = msgspec.Raw(msgspec.json.encode(kind))
        if "tool_args" in fields:
            given = msgspec.json.decode(fields.get("tool_input", b"{}"), type=dict[str, Any])
            former: object = msgspec.json.decode(fields["tool_args"])
            former_args = cast("dict[str, Any]", former) if isinstance(former, dict) else {}
            args = arguments(kind if isinstance(kind, str) else "other", given, former=former_args)
            translated["tool_args"] = msgspec.Raw(msgspec.json.encode(args))
    except (msgspec.MsgspecError, UnicodeError, RecursionError, UnclearToolError) as error:
        raise PayloadError(f"guards could not judge the tool as it was changed: {error}") from None
    return translated


def has_same_meaning(old: msgspec.Raw | None, new: msgspec.Raw) -> bool:
    if old is None:
        return False
    if old == new:
        return True
    try:
        before, after = decode(old), decode(new)
        # Values that differ in Python differ.  Of equal ones, 1, 1.0 and true still differ, which their JSON shows.
        return before == after and SORTED.encode(before) == SORTED.encode(after)
    except NOT_PLAIN as error:
        raise describe_json_error(error) from None


def canonicalize_json(raw: msgspec.Raw | bytes) -> bytes:
    """Return one spelling for all JSON of equal meaning; 1, 1.0 and true stay different."""
    try:
        return SORTED.encode(decode(raw))
    except NOT_PLAIN as error:
        raise describe_json_error(error) from None


def describe_json_error(error: Exception) -> PayloadError:
    return PayloadError(f"a value is not plain JSON: {error}")
