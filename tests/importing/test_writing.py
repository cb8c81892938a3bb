"""What is written as TOML: whatever the values are, a parser reads the same ones back."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as running
from hypothesis import strategies as st

from hooklatch.importing import ImportedHook, ImportResult
from hooklatch.importing.writing import ORDER, write_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUE = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | st.datetimes() | st.dates() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SETTINGS = st.dictionaries(st.sampled_from(ORDER[1:]), VALUE)


def written(settings: dict[str, Any], problem: str | None) -> str:
    hook = ImportedHook("the place", {"id": "x", **settings}, problem, {"id": "o", **settings} if problem else None)
    return write_toml(ImportResult("claude", [hook], []), origin="settings.json", stem="mine")


@running(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SETTINGS)
def test_what_is_written_reads_back_equal(settings: dict[str, Any]) -> None:
    text = written(settings, problem=None)

    assert tomllib.loads(text) == {"hook": [{"id": "mine:x", **settings}]}


@running(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SETTINGS)
def test_what_is_a_comment_reads_back_equal_without_its_marks(settings: dict[str, Any]) -> None:
    text = written(settings, problem="it has no command")
    hook, _, override = text.partition("# [[hook]]\n")[2].partition("# or, where a plugin has it, in hooks.toml:\n")

    assert tomllib.loads(text) == {}
    assert read("[[hook]]\n", hook) == {"hook": [{"id": "mine:x", **settings}]}
    assert read("", override) == {"override": [{"id": "o", **settings}]}


def read(header: str, comments: str) -> dict[str, Any]:
    return tomllib.loads(header + "\n".join(line.removeprefix("# ") for line in comments.split("\n")))
