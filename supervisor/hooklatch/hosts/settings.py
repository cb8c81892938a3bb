"""The hooks block of a host's settings.  Runs once per installation, so imports may be slow."""

import json
import shlex
import sys
from pathlib import Path

from hooklatch.hosts import claude_code

__all__ = ["claude_code_settings"]

# Events on which `onFailure` was seen to block if a hook cannot start, is killed or times out.  On others it has no
# effect or was not measured, and a handler that Claude Code rejects would invalidate the whole settings file.
_BLOCKS_ON_FAILURE = frozenset({"PreToolUse", "UserPromptSubmit"})
_MARGIN = 5  # seconds between our own deny and the host's time limit


def claude_code_settings(runtime_dir: str | None = None) -> str:
    """Return JSON for Claude Code's settings.json: one command for each event with a canonical name."""
    hooks = {name: [{"hooks": [_handler(name, runtime_dir)]}] for name in claude_code.EVENTS}
    return json.dumps({"hooks": hooks}, indent=2) + "\n"


def _handler(name: str, runtime_dir: str | None) -> dict[str, str | int]:
    shim = Path(__file__).resolve().with_name("shim.py")
    words = [sys.executable, "-I", "-S", str(shim), claude_code.HOST, "--event", name]
    if runtime_dir is not None:
        words += ["--runtime-dir", str(Path(runtime_dir).absolute())]
    handler: dict[str, str | int] = {
        "type": "command",
        "command": shlex.join(words),
        "timeout": claude_code.timeout_of(name) + _MARGIN,
    }
    if name in _BLOCKS_ON_FAILURE:
        handler["onFailure"] = "block"
    return handler
