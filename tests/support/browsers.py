"""A real browser without a screen, driven by playwright: the machine's own chromium, and none that is downloaded."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["check_reading", "needs_browser", "running_browser"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = (
    "no chromium on this machine; .ci/install-toolchains installs one"
    if CHROMIUM is None
    else "playwright is not installed; it comes with hooklatch[test]"
    if not all(map(importlib.util.find_spec, ("playwright", "axe_playwright_python")))
    else None
)
needs_browser = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


@contextmanager
def running_browser() -> Iterator[Any]:
    """Run a browser; nothing of it is left afterwards."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Its own sandbox needs user namespaces, which root in a container may not make.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def check_reading(page: Any, name: str) -> None:
    """Assert that axe-core finds nothing serious, and that nothing is beyond the edge of the screen."""
    import axe_playwright_python as axe

    if not page.evaluate("'axe' in window"):
        page.evaluate(next(Path(axe.__file__).parent.rglob("axe*.js")).read_text())
    # Of what is as it should be the page would make a report many times as long, on each element.
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then((report) => report.violations)")
    grave = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
    assert grave == [], name
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
