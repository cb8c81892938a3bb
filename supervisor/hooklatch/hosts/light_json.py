"""JSON without the `json` package, whose regular expressions double the start time of a hook command.

Uses the C accelerators that `json` itself is made of, and `json` where an interpreter lacks them. Strict:
what this accepts is one finite JSON document and nothing around it, which everybody reads alike.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeGuard

try:
    from _json import encode_basestring_ascii as quote
    from _json import make_scanner
except ImportError:  # not CPython
    from json.encoder import py_encode_basestring_ascii as quote

    make_scanner = None  # type: ignore[assignment,misc]

__all__ = ["RepeatedKeyError", "dumps", "is_list", "is_object", "loads", "quote"]

_WHITESPACE = " \t\n\r"  # RFC 8259, section 2; str.strip() alone would take more


class RepeatedKeyError(ValueError):
    """A key stands twice in one object; `value` is the document as who takes the last one reads it."""

    def __init__(self, key: str, value: object) -> None:
        super().__init__(f"the key {key[:100]!a} stands twice in one object")
        self.value = value


def is_object(value: object) -> "TypeGuard[dict[str, object]]":
    return isinstance(value, dict)


def is_list(value: object) -> "TypeGuard[list[object]]":
    return isinstance(value, list)


def loads(text: str) -> object:
    """The value that `text` is the JSON of.

    Raises:
        ValueError: it is no JSON, or something follows it, or a number is NaN or infinite.
        RepeatedKeyError: a key stands twice in one object, so that readers differ on what it says.
        RecursionError: it is nested too deep.
    """
    text = text.strip(_WHITESPACE)
    _repeated.clear()
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("a value is missing") from None
    except SystemError:
        # Python 3.11's scanner raises json.JSONDecodeError only if somebody imported that, and else nothing.
        raise ValueError("malformed") from None
    if end != len(text):
        raise ValueError(f"something follows the JSON value at character {end}")
    if _repeated:
        raise RepeatedKeyError(_repeated[0], value)
    return value


def dumps(value: object) -> str:
    """ASCII JSON of plain values, so that no encoding of the output can spoil it.

    Raises:
        ValueError: a value is no plain finite JSON.
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
        return float.__repr__(_finite(value))
    if is_object(value):
        return "{" + ",".join([f"{quote(key)}:{dumps(item)}" for key, item in value.items()]) + "}"
    if is_list(value):
        return "[" + ",".join([dumps(item) for item in value]) + "]"
    raise ValueError(f"a {type(value).__name__} is no JSON value")


def _finite(number: float) -> float:
    if number - number != 0:
        raise ValueError("a number is not finite")
    return number


def _parse_float(digits: str) -> float:
    return _finite(float(digits))


def _refuse_constant(name: str) -> "NoReturn":
    raise ValueError(f"{name} is no JSON value")


_repeated: "list[str]" = []  # keys, in the document that is read just now


def _read_object(pairs: "list[tuple[str, object]]") -> "dict[str, object]":
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                _repeated.append(key)
            seen.add(key)
    return found


class _Scanning:
    """What the C scanner reads its settings from: the attributes of a json.JSONDecoder."""

    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_read_object)
    array_hook = None  # read by Python 3.15 and later
    parse_float = staticmethod(_parse_float)
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)


def _scanner() -> "Callable[[str, int], tuple[Any, int]]":
    if make_scanner is not None:  # pyright: ignore[reportUnnecessaryComparison]
        return make_scanner(_Scanning())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    from json import JSONDecoder

    return JSONDecoder(
        parse_float=_parse_float, parse_constant=_refuse_constant, object_pairs_hook=_read_object
    ).raw_decode


_scan = _scanner()
