"""Formatting diagnostics, by tables."""

from __future__ import annotations

import pytest

from hooklatch_worker.lsp.report import (
    MAX_LINES,
    SEVERITIES,
    DocumentRange,
    LspDiagnostic,
    LspReport,
    MarkupContent,
    Position,
    build_report,
)
from support.tables import table


def at(line: int, character: int, message: str = "m", severity: int | None = 1) -> LspDiagnostic:
    return LspDiagnostic(message, DocumentRange(Position(line, character)), severity)


def lines(*items: LspDiagnostic, severities: tuple[str, ...] = SEVERITIES) -> list[str]:
    found = build_report(items, path="a/b.py", severities=severities)
    return found.text.splitlines() if found else []


@table(
    ("item", "line"),
    [
        (at(2, 0, "undefined function bar/0"), "error: undefined function bar/0 at a/b.py:3:1"),
        (at(0, 7, "unused", 2), "warning: unused at a/b.py:1:8"),
        (at(0, 0, "fyi", 3), "information: fyi at a/b.py:1:1"),
        (at(0, 0, "maybe", 4), "hint: maybe at a/b.py:1:1"),
        (at(0, 0, "said without one", None), "error: said without one at a/b.py:1:1"),
        (at(0, 0, "of a later protocol", 9), "hint: of a later protocol at a/b.py:1:1"),
        (at(0, 0, "two\n  lines\r\n\tand \x1b[31mred"), "error: two lines and [31mred at a/b.py:1:1"),
        (LspDiagnostic(MarkupContent("**bold**")), "error: **bold** at a/b.py:1:1"),
        (LspDiagnostic(), "error:  at a/b.py:1:1"),
        (at(0, 0, "x" * 1000), f"error: {'x' * 299}… at a/b.py:1:1"),
    ],
)
def test_a_diagnostic_is_one_line(item: LspDiagnostic, line: str) -> None:
    assert lines(item) == ["[lsp diagnostics]", line]


def test_lines_are_sorted_by_place_and_said_once() -> None:
    found = lines(at(9, 0), at(1, 5, "b", 2), at(1, 5, "a", 2), at(1, 5, "z"), at(1, 0), at(9, 0))

    assert [line.partition(" at ")[0] for line in found[1:]] == [
        "error: m",
        "error: z",
        "warning: a",
        "warning: b",
        "error: m",
    ]


@pytest.mark.parametrize(
    ("severities", "shown"),
    [
        (("error", "warning"), ["error", "warning"]),
        (("hint",), ["hint"]),
        ((), []),
    ],
    ids=["XA-47", "XA-47 hints alone", "XA-47 none"],
)
def test_only_the_wanted_severities_are_shown(severities: tuple[str, ...], shown: list[str]) -> None:
    found = lines(*(at(number, 0, "m", number) for number in (1, 2, 3, 4)), severities=severities)

    assert [line.partition(":")[0] for line in found[1:]] == shown


def test_what_is_over_fifty_lines_is_counted() -> None:
    found = build_report([at(number, 0) for number in range(MAX_LINES + 7)], path="a", severities=SEVERITIES)

    assert found is not None
    assert found.text.splitlines()[-2:] == ["error: m at a:50:1", "… and 7 more"]
    assert found.count == MAX_LINES + 7


@pytest.mark.parametrize(("severity", "had_errors"), [(1, True), (2, False)])
def test_telemetry_is_told_of_errors(severity: int, had_errors: bool) -> None:
    found = build_report([at(0, 0, "m", severity)], path="a", severities=SEVERITIES)

    assert found == LspReport(found.text if found else "", 1, had_errors)
