"""The page that says how we stand is the one that the rows give."""

import re

import pytest

from conformance.driven import SYSTEMS, driven_rows, rows_of
from conformance.features import FEATURES
from conformance.page import PAGE, ROOT, page


def test_the_page_is_what_the_rows_say() -> None:
    """That each driven row holds, which the page says of it, test_driven.py shows."""
    held = {row.id for system in SYSTEMS for row in driven_rows(system)}

    assert PAGE.read_text() == page(held), "write it anew: python tests/conformance/page.py"


def shown() -> set[str]:
    """Everything that can show a feature: the names of all tests, and the ids of all rows that have a check."""
    names = {name for path in (ROOT / "tests").rglob("test_*.py") for name in TEST.findall(path.read_text())}
    return names | {row.id for system in SYSTEMS for row in rows_of(system) if row.status != "not applicable"}


TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


@pytest.mark.parametrize(("system", "feature", "tests"), FEATURES, ids=lambda value: str(value)[:40])
def test_each_feature_is_shown_by_a_test_that_there_is(system: str, feature: str, tests: tuple[str, ...]) -> None:
    assert system in SYSTEMS.values()
    assert set(tests) <= shown(), feature
