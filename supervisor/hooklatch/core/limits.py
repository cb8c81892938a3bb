"""What a client may cost.  The limits on what clients choose stand here, and in docs/protocol.md.  Pure numbers.

Text.  What is kept beyond one request, or written into logs and metrics, has a length of its own, checked while the
params are read: an error names the field and the limit, and a fire that is refused so is a deny.

Memory.  A session costs at most what its definitions, its requests under way and its unread answers may take; the
sum of all sessions is bounded by their number, which descriptors bound.

Descriptors.  A connection is one descriptor.  A part of those that the system allows is kept for what serves all:
workers (four each), the record, files, the watches.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

__all__ = [
    "ADMIN_PLACES",
    "MAX_BACKGROUND_BYTES",
    "MAX_BYTES_IN_FLIGHT",
    "MAX_HOOKS",
    "MAX_HOOK_BYTES",
    "MAX_SESSION_HOOK_BYTES",
    "CallId",
    "Name",
    "Names",
    "Path",
    "Places",
    "Tables",
    "places",
]

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
Path: TypeAlias = Annotated[str, msgspec.Meta(max_length=4096)]  # PATH_MAX of limits.h
Names: TypeAlias = Annotated[list[Name], msgspec.Meta(max_length=256)]
CallId: TypeAlias = Name | int
MAX_HOOKS = 1000  # that one session may register
Tables: TypeAlias = Annotated[list[dict[str, Any]], msgspec.Meta(max_length=MAX_HOOKS)]
MAX_HOOK_BYTES = 2**16  # of one definition, as JSON
MAX_SESSION_HOOK_BYTES = 2**22  # of all definitions of one session
MAX_BYTES_IN_FLIGHT = 32 * 2**20  # of one connection's unanswered requests: three payloads of the largest size
MAX_BACKGROUND_BYTES = 64 * 2**20  # of payloads that nobody waits for

MAX_CONNECTIONS = 8192
KEPT = 1024  # descriptors for everything but connections, or a half of all where there are fewer than twice as many
ADMIN_PLACES = 16  # connections of administrators, which no flood of agents can take


class Places(msgspec.Struct, frozen=True):
    """How many connections there may be on each socket."""

    agents: int
    administrators: int


def places(descriptors: int) -> Places:
    """Share out the descriptors that the process may have."""
    free = min(MAX_CONNECTIONS, descriptors - min(KEPT, descriptors // 2))
    administrators = min(ADMIN_PLACES, max(free // 4, 1))
    return Places(max(free - administrators, 1), administrators)
