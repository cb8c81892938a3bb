"""Tables fit the width: which columns are left out, how wide the others are, and where words are broken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hooklatch.cli.terminal.tables import GAP, fit_columns, wrap_text
from support.tables import table

CELLS = [["ID", "STATE", "ORIGIN"], ["guards:no_push", "active", "/srv/app/hooks.d/guards.py:12"], ["x", "off", "-"]]
WORDS = st.text("ab/:._- 漢", max_size=60)


@table(
    "width, drop, titles",
    [
        (80, ("ORIGIN",), ["ID", "STATE", "ORIGIN"]),  # it fits, so all is there
        (50, ("ORIGIN",), ["ID", "STATE", "ORIGIN"]),  # it is wrapped
        (40, ("ORIGIN",), ["ID", "STATE"]),
        (40, ("STATE", "ORIGIN"), ["ID", "ORIGIN"]),
        (15, ("STATE", "ORIGIN"), ["ID"]),
        (40, (), ["ID", "STATE"]),  # unnamed ones go from the right
        (5, ("ID",), ["STATE"]),
    ],
)
def test_columns_are_left_out_in_the_order_that_is_given(width: int, drop: tuple[str, ...], titles: list[str]) -> None:
    fitted = fit_columns(CELLS, width=width, drop=drop)

    assert [CELLS[0][column] for column in fitted.columns] == titles
    assert sorted([*titles, *fitted.left_out]) == sorted(CELLS[0])


@given(st.lists(st.lists(WORDS, min_size=3, max_size=3), max_size=4), st.integers(1, 100))
def test_what_is_chosen_is_never_wider_than_the_terminal(rows: list[list[str]], width: int) -> None:
    columns, widths, _ = fit_columns([["ID", "STATE", "ORIGIN"], *rows], width=width)

    assert columns
    assert sum(widths) + GAP * (len(widths) - 1) <= width
    assert all(one >= 1 for one in widths)


@table(
    "text, width, lines",
    [
        ("", 5, [""]),
        ("one two three", 8, ["one two", "three"]),
        ("/srv/app/guards.py", 9, ["/srv/app/", "guards.py"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("漢字漢字", 4, ["漢字", "漢字"]),
    ],
)
def test_words_are_broken_where_they_can_be_read(text: str, width: int, lines: list[str]) -> None:
    assert wrap_text(text, width) == lines


@given(WORDS, st.integers(2, 30))
def test_wrapping_loses_nothing_and_fits(text: str, width: int) -> None:
    lines = wrap_text(text, width)

    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(line) <= width for line in lines)
