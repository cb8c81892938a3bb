"""Asks that nobody made, for tests of what is shown of them and of what ends them."""

from __future__ import annotations

from typing import Any

from hooklatch.core.answers import Ask

DIGEST = "d" * 64


def ask(ask_id: str = "a-1", **more: Any) -> Ask:
    fields: dict[str, Any] = {
        "id": ask_id, "at": "", "expires_at": "", "session_id": "s", "host": None, "cwd": None, "event": "pre_tool_use",
        "tool": "Bash", "subject": "ls", "hook": "global/guard", "reason": "why?", "questions": [],
        "questions_omitted": 0, "instead": None, "payload_digest": DIGEST, "payload_bytes": 2, "excerpt": None,
        "excerpt_cut": None, "patch": None, "patch_cut": None, **more,
    }  # fmt: skip
    return Ask(**fields)
