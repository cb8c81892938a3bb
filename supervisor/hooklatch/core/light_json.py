"""A JSON parser without the `json` package, whose regular expressions double the start-up time of a command.

It uses the C accelerators of `json`, and `json` itself on interpreters without them.  It is strict: it accepts exactly
one finite JSON document that all parsers read alike.
"""

from hooklatch.core.text import is_unicode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeGuard

try:
    from _json import encode_basestring as quote_unicode
    from _json import encode_basestring_ascii as quote
    from _json import make_scanner
except ImportError:  # not CPython
    from json.encoder import py_encode_basestring as quote_unicode
    from json.encoder import py_encode_basestring_ascii as quote

    make_scanner = None  # type: ignore[assignment,misc]

__all__ = [
    "RepeatedKeyError", "as_object", "serialize_json", "is_all_unicode", "is_list", "is_object", "parse_json",
    "parse_own_object", "quote", "quote_unicode",
]  # fmt: skip

_WHITESPACE = " \t\n\r"  # RFC 8259, section 2; str.strip() without arguments would strip more


class RepeatedKeyError(ValueError):
    """A key occurs twice in one object; `value` is the document as read by parsers that keep the last one."""

    def __init__(self, key: str, value: object) -> None:
        super().__init__(f"the key {key[:100]!a} occurs twice in one object")
        self.value = value


def is_object(value: object) -> "TypeGuard[dict[str, object]]":
    return isinstance(value, dict)


def as_object(value: object) -> "dict[str, Any]":
    return value if is_object(value) else {}


def is_list(value: object) -> "TypeGuard[list[object]]":
    return isinstance(value, list)


def is_all_unicode(value: object) -> bool:
    """Return whether no string in a value holds half of a surrogate pair."""
    if is_object(value):
        return all(is_unicode(key) and is_all_unicode(item) for key, item in value.items())
    if is_list(value):
        return all(map(is_all_unicode, value))
    return not isinstance(value, str) or is_unicode(value)


def parse_own_object(line: bytes) -> "dict[str, Any] | None":
    """Parse an object that hooklatch wrote; None for anything else.  Of a repeated key the last value counts.

    It is faster than `parse_json`, which looks at each key.
    """
    try:
        text = line.decode().strip(_WHITESPACE)
        value, end = _scan_own(text, 0)
    except (ValueError, StopIteration, SystemError, RecursionError):
        return None
    if end != len(text) or not is_object(value):
        return None
    has_surrogates = b"\\ud" in line or b"\\uD" in line
    return None if has_surrogates and not is_all_unicode(value) else value


def parse_json(text: str) -> object:
    """Parse a JSON document.

    Raises:
        ValueError: it is not JSON, is followed by something else, or holds NaN or an infinite number.
        RepeatedKeyError: a key occurs twice in one object, so parsers disagree on its value.
        RecursionError: it is nested too deep.
    """
    text = text.strip(_WHITESPACE)
    _repeated.clear()  # repeated keys are collected while the text is read, since their error carries the whole value
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("a value is missing") from None
    except SystemError:
        # Python 3.11's scanner raises json.JSONDecodeError only if `json` is imported, and otherwise nothing.
        raise ValueError("malformed") from None
    if end != len(text):
        raise ValueError(f"something follows the JSON value at character {end}")
    if _repeated:
        raise RepeatedKeyError(_repeated[0], value)
    return value


def serialize_json(value: object, quote: "Callable[[str], str]" = quote) -> str:
    """Serialize plain values to ASCII JSON, which no output encoding can damage, or with `quote_unicode` for people.

    Raises:
        ValueError: a value is not plain finite JSON.
    """
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(_require_finite(value))
    if is_object(value):
        return "{" + ",".join([f"{quote(key)}:{serialize_json(item, quote)}" for key, item in value.items()]) + "}"
    if is_list(value):
        return "[" + ",".join([serialize_json(item, quote) for item in value]) + "]"
    raise ValueError(f"a {type(value).__name__} is not a JSON value")


def _require_finite(number: float) -> float:
    if number - number != 0:
        raise ValueError("a number is not finite")
    return number


def _parse_float(digits: str) -> float:
    return _require_finite(float(digits))


def _refuse_constant(name: str) -> "NoReturn":
    raise ValueError(f"{name} is not a JSON value")


_repeated: "list[str]" = []  # keys, in the document that is being read


def _read_object(pairs: "list[tuple[str, object]]") -> "dict[str, object]":
    members = dict(pairs)
    if len(members) != len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                _repeated.append(key)
            keys.add(key)
    return members


class _Scanning:
    """The settings of the C scanner: the attributes that it reads from a json.JSONDecoder."""

    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_read_object)
    array_hook = None  # read by Python 3.15 and later
    parse_float = staticmethod(_parse_float)
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)


class _OwnScanning(_Scanning):
    """The same without a look at each key."""

    object_pairs_hook = None  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]


def _make_scanner(settings: _Scanning) -> "Callable[[str, int], tuple[Any, int]]":
    if make_scanner is not None:  # pyright: ignore[reportUnnecessaryComparison]
        return make_scanner(settings)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    from json import JSONDecoder

    return JSONDecoder(
        parse_float=_parse_float, parse_constant=_refuse_constant, object_pairs_hook=settings.object_pairs_hook
    ).raw_decode


_scan = _make_scanner(_Scanning())
_scan_own = _make_scanner(_OwnScanning())
