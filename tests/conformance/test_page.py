"""The page that says how we stand is the one that the rows give."""

from conformance.page import PAGE, page


def test_the_page_is_what_the_rows_say() -> None:
    assert PAGE.read_text() == page(), "write it anew: python tests/conformance/page.py"
