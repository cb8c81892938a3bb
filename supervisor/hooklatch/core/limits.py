"""Limits on what clients choose, as listed in docs/reference/protocol.md.  Numbers only.

Text.  A text that outlives one request, or reaches logs and metrics, has its own maximum length.  It is checked while
the params are decoded: the error names the field and the limit, and a fire refused this way is a deny.

Memory.  The cost of one session is bounded by the limits on its definitions, its requests in flight and its unread
responses.  The sum over all sessions is bounded by one budget for what is large (`service/registry/budget.py`), and for
what is small by their number, which file descriptors bound.

Descriptors.  Each connection takes one file descriptor.  Part of the process's limit is reserved for shared needs:
workers (four each), the record, files and watches.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

__all__ = [
    "ADMIN_PLACES", "MAX_BYTES_IN_FLIGHT", "MAX_HOOKS", "MAX_HOOK_BYTES", "MAX_SESSION_HOOK_BYTES", "CallId",
    "Name", "Names", "Path", "ConnectionLimits", "Tables", "divide_descriptors",
]  # fmt: skip

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
Path: TypeAlias = Annotated[str, msgspec.Meta(max_length=4096)]  # PATH_MAX of limits.h
Names: TypeAlias = Annotated[list[Name], msgspec.Meta(max_length=256)]
CallId: TypeAlias = Name | int
MAX_HOOKS = 1000  # per session
Tables: TypeAlias = Annotated[list[Any], msgspec.Meta(max_length=MAX_HOOKS)]
MAX_HOOK_BYTES = 2**16  # per definition, as JSON
MAX_SESSION_HOOK_BYTES = 2**22  # for all definitions of one session
MAX_BYTES_IN_FLIGHT = 32 * 2**20  # of one connection's unanswered requests: three payloads of the largest size

MAX_CONNECTIONS = 8192
RESERVED = 1024  # descriptors for everything but connections; half of the limit if it is below twice this number
ADMIN_PLACES = 16  # connections reserved for administrators, which a flood of agents cannot take


class ConnectionLimits(msgspec.Struct, frozen=True):
    """The maximum number of connections on each socket."""

    agents: int
    administrators: int


def divide_descriptors(descriptors: int) -> ConnectionLimits:
    """Divide the process's file descriptors between the two sockets."""
    free = min(MAX_CONNECTIONS, descriptors - min(RESERVED, descriptors // 2))
    administrators = min(ADMIN_PLACES, max(free // 4, 1))
    return ConnectionLimits(max(free - administrators, 1), administrators)
