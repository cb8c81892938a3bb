"""docs/start/tutorial.md as somebody follows it, to a guard that Claude Code asks, and the lines of two other pages.

Slow: it runs a daemon and some twenty commands as a person would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pasted import blocks_of, new_home, paste, save
from support.repository import ROOT

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
TUTORIAL = blocks_of((DOCS / "start/tutorial.md").read_text())
LOOKING = blocks_of((DOCS / "guides/troubleshooting.md").read_text())
UNINSTALLING = blocks_of((DOCS / "start/uninstalling.md").read_text())
INSTALL = "pipx install hooklatch\n"  # what it brings is what the tests run on
# As Claude Code starts it: the command of the entry by a shell, the event on standard input.
ASKED = """python3 - <<'END' | sh
import json, os, shlex
(entry,) = json.load(open(os.path.expanduser("~/.claude/settings.json")))["hooks"]["PreToolUse"]
document = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": os.getcwd(), "tool_name": "Bash",
            "tool_input": {"command": "bash -c './deploy.sh production'"}}
print("printf %s", shlex.quote(json.dumps(document)), "|", entry["hooks"][0]["command"])
END"""
# A reader takes longer to come back from an editor than the daemon to take the file; a script has to wait for it.
RELOADED = "until hooklatch hooks show deploys:no_deploys >/dev/null 2>&1; do :; done"


def followed(home: Path) -> Iterator[str]:
    """Yield what is typed; Claude Code asks before the last block, as the page has its reader start it."""
    blocks = [(language, text) for language, text in TUTORIAL if language != "text" and text != INSTALL]
    for number, (language, text) in enumerate(blocks, 1):
        if number == len(blocks):
            yield ASKED
        saved = save(text, home / ".config/hooklatch/hooks.d/deploys.py")
        yield f"{saved}\n{RELOADED}" if language == "python" else text
    yield from (text for language, text in [*LOOKING, *UNINSTALLING] if language == "sh")


def test_the_tutorial_ends_with_a_guard_in_claude_code_and_uninstalling_leaves_nothing() -> None:
    assert [text for _, text in TUTORIAL if text == INSTALL] == [INSTALL]

    with new_home() as (home, environment):
        told, everything = paste(followed(home), home, environment)
        left = [str(path.relative_to(home)) for path in home.rglob("*") if path.is_file() and path.parent.name != "bin"]

    assert [code for _, code in told] == [0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], everything
    _, first, installed, _, second, asked, log, look, uninstalled, _, stopped, _ = (text for text, _ in told)
    (shown,) = [text for language, text in TUTORIAL if language == "text"]
    assert shown in first
    assert "a canary was refused by the daemon" in installed
    assert "verdict  deny\nreason   a person deploys" in second
    assert json.loads(asked)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "a person deploys" in asked
    assert re.search(
        r"Z  deny   bash -c '\./deploy\.sh production'  by deploys:no_deploys: a person deploys; "
        r"say what should be deployed, and stop  Bash  \d+\.\d ms  [0-9a-f]{8}-\d+  s$",
        log,
        re.MULTILINE,
    )
    assert re.search(r"^health +green", look, re.MULTILINE)
    assert "which is gone now" in uninstalled
    assert stopped.startswith("stopped (pid ")
    assert left == [], "uninstalling says that nothing is left"
