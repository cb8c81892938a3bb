"""Writes docs/reference/guards-gallery.md from the gallery and its cases.  Run it: python tests/guards/page.py"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hooklatch.cli.testing.cases import Case

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "guards-gallery.md"
HEAD = """# The gallery, guard by guard

For people who rely on a guard of the [gallery](../start/guards.md): what each stops,
what it asks about, what it lets pass on purpose, and what
gets past it. Each row is a case that `hooklatch guards test` fires, and that the tests of this project run. The agent
works in `/srv/app/web`.

This page is written by `python tests/guards/page.py` from the cases beside the guards; a test holds it to them."""
TITLES = {
    "deny": "stops",
    "ask": "asks a person about",
    "append": "adds a text to",
    "pass": "lets pass, since it is everyday work",
    "not stopped": "does **not** stop",
}


def page() -> str:
    from guards.gallery import NAMES
    from hooklatch.guards.catalogue import find_gallery_guard

    parts = [HEAD]
    for name in NAMES:
        one = find_gallery_guard(name)
        needs = f" It needs `pip install '{one.needs}'`." if one.needs else ""
        events = ", ".join(f"`{event}`" for event in one.events)
        parts += [f"## {name}", f"{one.summary}. Events: {events}.{needs}", *tables(name)]
    parts += ["## Over recorded sessions", *of_recorded()]
    return "\n\n".join(parts) + "\n"


def tables(name: str) -> Iterator[str]:
    from guards.gallery import cases

    found = cases(name)
    for key, title in TITLES.items():
        rows = [case for case in found if kind_of(case) == key]
        if rows:
            lines = [f"| {name} {title} |", "|---|", *(f"| {shown(case)} |" for case in rows)]
            yield "\n".join(lines)


def kind_of(case: Case) -> str:
    from guards.gallery import NOT_STOPPED

    if case.name.startswith(NOT_STOPPED):
        return "not stopped"
    return "append" if case.expected.append else case.expected.verdict


def shown(case: Case) -> str:
    """Return the name of a case for a table, as code if it is a command."""
    from guards.gallery import NOT_STOPPED

    text = case.name.removeprefix(NOT_STOPPED)
    payload = json.loads(bytes(case.params.payload))
    is_command = " ".join(str(payload.get("tool_input", {}).get("command")).split()) == text
    text = text.replace("|", "\\|")
    if not is_command:
        return text
    is_plain = "`" not in text and not text.startswith("make")  # `make x` is a target of ours
    return f"`{text}`" if is_plain else f"`` {text} ``"


def of_recorded() -> Iterator[str]:
    from guards.recorded import REFUSED

    yield (
        "All guards at once were asked about everything that the recorded sessions of Claude Code, Codex, Copilot and"
        " Gemini hold (`tests/data`, `examples/recorded-session.jsonl`): edits, commands, subagents, prompts, failures."
    )
    if not REFUSED:
        yield "None of it was refused or asked about. They are short sessions, and no month of work."
        return
    rows = [f"| {guard} | `{what}` | {why} |" for (guard, what), why in sorted(REFUSED.items())]
    yield "\n".join(["| guard | asked about | why that is right |", "|---|---|---|", *rows])


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests")]
    PAGE.write_text(page())
