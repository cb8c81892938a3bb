"""-k: expressions over the words of cases."""

import pytest

from hooklatch.cli.testing.cases import ExpressionError, parse_selection
from support.tables import table

TEXT = "a forced push is refused pre_tool_use cases.toml"


@table(
    ("expression", "matches"),
    [
        ("force", True),
        ("FORCE", True),
        ("forced and push", True),
        ("forced and pull", False),
        ("pull or push", True),
        ("not pull", True),
        ("not push", False),
        ("not (pull or mirror) and refused", True),
        ("pull and push or refused", True),
        ("pull and (push or refused)", False),
        ("not not push", True),
        ("pre_tool_use", True),
    ],
)
def test_words_are_joined_as_they_read(expression: str, matches: bool) -> None:
    assert parse_selection(expression)(TEXT) is matches


@table(
    ("expression", "where"),
    [
        ("", "at its end"),
        ("a and", "at its end"),
        ("(a", "at its end"),
        ("a b", "at 'b'"),
        ("or a", "at 'or'"),
        ("a )", "at ')'"),
        ("(" * 100_000 + "a" + ")" * 100_000, "more than 200 words"),
    ],
)
def test_what_is_no_expression_says_where(expression: str, where: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_selection(expression)

    assert where in str(caught.value)
