"""The page that says how we stand is the one that the rows give."""

import importlib
import re

import pytest

from conformance.features import FEATURES
from conformance.page import PAGE, ROOT, SYSTEMS, page


def test_the_page_is_what_the_rows_say() -> None:
    assert PAGE.read_text() == page(), "write it anew: python tests/conformance/page.py"


def shown() -> set[str]:
    """Everything that can show a feature: the names of all tests, and the ids of all rows that have a check."""
    names = {name for path in (ROOT / "tests").rglob("test_*.py") for name in TEST.findall(path.read_text())}
    modules = [importlib.import_module(f"conformance.rows.{name}") for name in SYSTEMS]
    return names | {row.id for module in modules for row in module.ROWS if row.status != "not applicable"}


TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


@pytest.mark.parametrize(("system", "feature", "tests"), FEATURES, ids=lambda value: str(value)[:40])
def test_each_feature_is_shown_by_a_test_that_there_is(system: str, feature: str, tests: tuple[str, ...]) -> None:
    assert system in SYSTEMS.values()
    assert set(tests) <= shown(), feature
