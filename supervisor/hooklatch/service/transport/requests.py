"""The parser of lines: from a line to a request.

Nearly every line is a fire, so it is read as a fire first: one typed decode for method and params, and one scan that
all parsers would agree on it.  A line that fails is read as any other method is, with its params left for later
(`core/protocol.py`), and that code words the error.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hooklatch.core.fire_params import FireParams
from hooklatch.core.protocol import Request, Response, read_message
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = ["FireRequest", "read_line"]


class FireRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fire whose params are valid, and that all parsers read alike."""

    method: Literal["fire"]
    params: FireParams
    jsonrpc: Literal["2.0"]
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET


FIRES = msgspec.json.Decoder(FireRequest)


def read_line(line: bytes) -> FireRequest | Request | Response:
    """Parse one line.

    Raises:
        RpcError: the line is not JSON, or not a JSON-RPC 2.0 message. The text names the problem.
    """
    try:
        fire = FIRES.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError):
        return read_message(line)
    return fire if find_ambiguity(line) is None else read_message(line)
