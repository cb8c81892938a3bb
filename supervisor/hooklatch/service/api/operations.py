"""Notes on the record what an administrator has changed, and who asked: by the kernel's word, and by their own.

It is noted in the step that makes the change: who asks may leave before the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hooklatch.core.limits import Name
from hooklatch.service.transport.connection import Connection

__all__ = ["AccountParams", "Operations"]

MAX_REASON = 500  # characters of a reason in the record


class AccountParams(msgspec.Struct, frozen=True, kw_only=True):
    """Who an operator is by their own word, and why they do it."""

    by: Name | None = None
    reason: str = ""


class Operations(msgspec.Struct, frozen=True):
    """Knows how to `note` one kind of entry with its fields."""

    note: Callable[[str, dict[str, Any]], None]

    def noted(
        self, connection: Connection, operation: str, account: AccountParams, hook: str | None = None, **facts: object
    ) -> None:
        """Record an operation: what it is about, a hook or a plugin or everything, and what came of it."""
        pid, uid = connection.peer
        about = {"operation": operation, "hook": hook or "*", "reason": account.reason[:MAX_REASON], **facts}
        self.note("operation", {**about, "by": account.by, "uid": uid, "pid": pid, "process": name_of(pid)})


def name_of(pid: int) -> str | None:
    """Return what the kernel calls a process; None if it has ended, or is in another PID namespace (pid 0)."""
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return file.read(64).decode("utf-8", "backslashreplace").rstrip("\n")
    except OSError:
        return None
