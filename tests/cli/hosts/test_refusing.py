"""What programs honour as a refusal, as it was measured with each of them."""

from __future__ import annotations

import json

from hooklatch.cli.hosts.checking import is_refusal
from support.tables import table

DENY = {
    "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "r"}
}
BY_EXIT_CODE = ("kimi", "grok", "letta", "auggie", "droid", "goose")
IN_JSON = ("claude-code", "copilot", "qwen", "kimi", "grok", "auggie")
ALL = ("claude-code", "codex", "gemini", "copilot", "cursor", "qwen", "cline", *BY_EXIT_CODE)


def text(document: object) -> bytes:
    return json.dumps(document).encode()


@table(
    ("exit_code", "stdout", "stderr", "refusing"),
    [
        (0, b"", b"", ()),
        (2, b"", b"why\n", tuple(name for name in ALL if name != "cline")),
        (2, b"", b"", ("claude-code", "copilot", "cursor", *BY_EXIT_CODE)),
        (1, b"", b"why", ("copilot",)),
        (-9, b"", b"", ()),
        (0, text(DENY), b"", ("codex", *IN_JSON)),
        (0, b"warning: x\n" + text(DENY), b"", ()),
        (0, text(DENY)[:-1], b"", ()),
        (0, text({**DENY, "more": 1}), b"", IN_JSON),
        (0, text({"permissionDecision": "deny"}), b"", ("copilot",)),
        (0, text({"decision": "deny", "reason": "r"}), b"", ("gemini",)),
        (0, text({"cancel": True, "errorMessage": "r"}), b"", ("cline",)),
        (0, text({"permission": "deny"}), b"", ("cursor",)),
        (0, text({"permission": "allow"}), b"", ()),
        (0, b"plain text", b"", ()),
        (0, b"[]", b"", ()),
        (127, b"", b"sh: not found", ("copilot",)),
    ],
)
def test_a_refusal_is_what_the_program_takes_for_one(
    exit_code: int, stdout: bytes, stderr: bytes, refusing: tuple[str, ...]
) -> None:
    assert [name for name in ALL if is_refusal(name, exit_code, stdout, stderr)] == [
        name for name in ALL if name in refusing
    ]
