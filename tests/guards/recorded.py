"""What agents really did, as it was recorded: each refusal of a guard is listed here, and why it is right."""

from __future__ import annotations

import json
from pathlib import Path

from hooklatch.cli.terminal.parser import CommandError
from hooklatch.cli.testing.cases import Case, read_cases
from support.repository import ROOT

__all__ = ["REFUSED", "recorded"]

HOSTS = {
    "claude-code-2.1.330": "claude-code",
    "codex-0.169.0": "codex",
    "copilot-cli-1.0.102-camel": "copilot",
    "copilot-cli-1.0.102-pascal": "copilot",
    "gemini-cli-0.61.0": "gemini",
}
# By guard and what it was asked about: why that is right.  Nothing was refused so far.
REFUSED: dict[tuple[str, str], str] = {}


def recorded(transcript: Path) -> list[Case]:
    """Return every recorded event of every host that is fired; transcripts are this file, since those are not here."""
    found: list[Case] = []
    files = [
        (host, path) for name, host in HOSTS.items() for path in sorted((ROOT / "tests/data" / name).glob("*.jsonl"))
    ]
    for host, path in [*files, ("claude-code", ROOT / "examples/recorded-session.jsonl")]:
        for line in path.read_text().splitlines():
            payload = json.loads(line)
            if "transcript_path" in payload:
                payload["transcript_path"] = str(transcript)
            event = {} if "hook_event_name" in payload else {"event": path.stem}
            case = {"host": host, "payload": payload, "expect": "pass", **event}
            try:
                found += read_cases(f"{path.name}.jsonl", json.dumps(case).encode(), "/")
            except CommandError:
                continue  # an event that is never fired here
    return found
