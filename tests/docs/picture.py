"""The picture of README: an agent tries, a guard refuses, and the agent takes another way, each answer from a real run.

The agent is played, by the program that an installed agent starts for each call; the daemon and its guards are real.

Run: python tests/docs/picture.py, which writes docs/pictures/refusal.svg
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from hooklatch.core.text import escape_text  # noqa: E402
from hooklatch.entry.commands import make_entry_command  # noqa: E402
from hooklatch.hosts.find import find_host  # noqa: E402
from support.commands import Place, new_place, serving  # noqa: E402

__all__ = ["PICTURE", "draw", "play"]

PICTURE = ROOT / "docs" / "pictures" / "refusal.svg"
GUARDS = ("destructive_commands", "git_rules")
TRIES = ("rm -rf ~", "rm -rf build", "git push --force origin main", "git push --force-with-lease origin feature")
WIDTH, LINE, LEFT, COLUMNS = 860, 22, 20, 96
STYLE = """
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; white-space: pre }
  rect { fill: #f6f8fa; stroke: #d0d7de } .no { fill: #b42318; font-weight: 600 }
  .yes { fill: #11703b; font-weight: 600 }
  .quiet { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } rect { fill: #161b22; stroke: #30363d } .no { fill: #ff7b72 } .yes { fill: #56d364 }
    .quiet { fill: #9198a1 }
  }
"""


class Answer(NamedTuple):
    """What the agent was told of a command: the reason of a refusal, or None where it may run."""

    command: str
    reason: str | None


def play() -> list[Answer]:
    """Have a played agent try each command under a daemon with the gallery's guards."""
    with new_place({"hooks.toml": ""}) as place:
        added = place.run("guards", "add", *GUARDS)
        assert added.returncode == 0, added.stderr
        with serving(place):
            return [try_command(place, command) for command in TRIES]


def try_command(place: Place, command: str) -> Answer:
    spec = find_host("claude-code").events["PreToolUse"]
    document = {
        "hook_event_name": "PreToolUse", "session_id": "picture", "cwd": str(place.folder), "tool_name": "Bash",
        "tool_input": {"command": command},
    }  # fmt: skip
    done = subprocess.run(
        make_entry_command("claude-code", "PreToolUse", spec.kind, spec.wait), input=json.dumps(document), text=True,
        capture_output=True, env=place.environment, timeout=60, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout or "{}").get("hookSpecificOutput", {})
    assert said.get("permissionDecision") in (None, "deny"), done.stdout
    return Answer(command, escape_text(said["permissionDecisionReason"]) if said else None)


def draw(answers: list[Answer]) -> str:
    """Return the picture of a run, as SVG that needs no script, no font and no network."""
    lines: list[tuple[str, str, str]] = []  # a mark, its class and a text
    for answer in answers:
        lines += [("", "", ""), ("agent", "quiet", answer.command)]
        if answer.reason is None:
            lines.append(("✓ runs", "yes", ""))
        else:
            first, *more = wrap(answer.reason)
            lines += [("✗ refused", "no", first), *(("", "no", text) for text in more)]
    lines = lines[1:]
    height = len(lines) * LINE + 2 * LEFT
    alt = "An agent tries rm -rf ~ and a forced push, guards refuse both with their reasons, and its other ways run"
    rows = [
        f'<text x="{LEFT}" y="{LEFT + 15 + number * LINE}"><tspan class="{kind}">{escape(mark)}</tspan>'
        f'<tspan x="{LEFT + 100}">{escape(text)}</tspan></text>'
        for number, (mark, kind, text) in enumerate(lines)
        if mark or text
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{alt}">',
        f"<title>{alt}</title>",
        f"<style>{STYLE}</style>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        *rows,
        "</svg>\n",
    ])  # fmt: skip


def wrap(text: str) -> list[str]:
    """Return a text in lines that fit the picture; a break is also where a clause ends."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > COLUMNS - 12:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


if __name__ == "__main__":
    PICTURE.write_text(draw(play()))
