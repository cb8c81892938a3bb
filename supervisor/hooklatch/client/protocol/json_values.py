"""The encoder of values that are sent, as plain JSON, and the decoder of responses, which checks their shape."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hooklatch.core.protocol import DECODE_ERRORS
from hooklatch.errors import InvalidPayloadError, UnreadableAnswerError
from hooklatch_worker.author.verdicts import GarbageError, check_plain

__all__ = ["encode_plain", "decode_response"]

T = TypeVar("T")


def encode_plain(value: object, where: str) -> msgspec.Raw:
    """Return a value as JSON that every reader reads alike; `where` names it in the error. Raw JSON stays as it is.

    Raises:
        InvalidPayloadError: it holds NaN, an infinity, a lone surrogate, a key that is not a str, or an object.
    """
    if isinstance(value, msgspec.Raw):
        return value
    try:
        check_plain(value, where)
        return msgspec.Raw(msgspec.json.encode(value))
    except GarbageError as error:
        raise InvalidPayloadError(str(error)) from None
    except UnicodeEncodeError:
        raise InvalidPayloadError(f"{where} contains a lone surrogate, which UTF-8 cannot encode") from None
    except RecursionError:
        raise InvalidPayloadError(f"{where} is nested too deep, or holds itself") from None
    # ValueError, OverflowError: an int with too many digits to be written.
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidPayloadError(f"{where} cannot be written as JSON: {error}") from None


def decode_response(result: msgspec.Raw, shape: type[T], what: str) -> T:
    """Decode a response; `what` names it in the error.

    Raises:
        UnreadableAnswerError: the response has another shape.
    """
    try:
        return msgspec.json.decode(result, type=shape)
    except DECODE_ERRORS as error:
        raise UnreadableAnswerError(f"the answer is not a valid {what}: {error}") from None
