"""The tables of docs/reference/dialects.md match those in the code."""

import pytest

from dialects.samples import dialects, label
from hooklatch.dialects.beam import CONTEXT
from hooklatch.dialects.dialect import Dialect, EventMapping
from support.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "dialects.md").read_text()


def row(dialect: Dialect, name: str) -> str:
    event = dialect.events[name]
    answers = event.answers
    feeds = ", ".join(f"`{feed.event}`" + (" (passed)" if feed.when == "passed" else "") for feed in event.feeds)
    said = [f"{word} `{key}`" for word, key in answers.words.items()]
    said += [f"{path} `{key}`" for path, key in answers.patch.items()]
    said += [f"{output} `{key}`" for output, key in answers.outputs.items()]
    return f"| {name} | {feeds} | {keys(dialect, event.feeds[0])} | {', '.join(said)} |".replace("|  |", "| |")


def keys(dialect: Dialect, feed: EventMapping) -> str:
    known = CONTEXT if dialect.name == "beam" else {}
    renamed = [
        f"`{native}` {path}"
        for native, path in feed.keys.items()
        if native != path and known.get(native) != path and path not in ("session_id", "session_key", "cwd")
    ]
    renamed += [f"`{feed.nested}`, or all others, {feed.gathers}"] if feed.gathers else []
    renamed += [f"(no {field}: {source})" for field, source in feed.fills.items()]
    renamed += [f"(no {field}: {value})" for field, value in feed.defaults.items()]
    return ", ".join(renamed)


@pytest.mark.parametrize("dialect", dialects(), ids=label)
def test_the_page_has_the_row_of_every_event(dialect: Dialect) -> None:
    part = PAGE.partition(f"\n## {dialect.name}\n")[2].partition("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("|")][2:]

    assert rows == [row(dialect, name) for name in dialect.events]
