"""The test whether a host takes the output of its hook process as a refusal of a tool call.  Pure.

It is the counterpart of an adapter, and deliberately not made from it: it has what the hosts were measured to honour,
so that `doctor` finds an adapter, a forwarder or a setting that is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

__all__ = ["is_refusal"]

# Programs that refuse by exit code 2 only with a text on standard error.
WANT_TEXT: Final = frozenset({"codex", "gemini", "qwen"})
CODEX_KEYS: Final = {"hookEventName", "permissionDecision", "permissionDecisionReason"}


def is_refusal(host: str, exit_code: int, stdout: bytes, stderr: bytes) -> bool:
    """Return whether this output certainly refuses a tool call."""
    if exit_code == 2:
        return (not stdout.strip() or host not in WANT_TEXT) and (bool(stderr.strip()) or host not in WANT_TEXT)
    if exit_code != 0:
        return host == "copilot" and exit_code > 0
    document = find_single_document(stdout)
    if document is None:
        return False
    specific = document.get("hookSpecificOutput")
    inner = cast("dict[str, Any]", specific) if isinstance(specific, dict) else {}
    match host:
        case "codex":
            is_strict = document.keys() <= {"hookSpecificOutput", "systemMessage"} and inner.keys() <= CODEX_KEYS
            return is_strict and is_deny(inner) and bool(inner.get("permissionDecisionReason"))
        case "claude-code" | "qwen":
            return is_deny(inner)
        case "gemini":
            return document.get("decision") in ("deny", "block")
        case "copilot":
            return is_deny(document) or is_deny(inner)
        case "cursor":
            return document.get("permission") == "deny"
        case _:
            return False


def is_deny(table: Mapping[str, Any]) -> bool:
    return table.get("permissionDecision") == "deny"


def find_single_document(stdout: bytes) -> dict[str, Any] | None:
    """Return the one JSON object that is all of standard output; any text beside it disarms a refusal."""
    try:
        document: object = json.loads(stdout.decode())
    except ValueError:
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None
