"""What a plain daemon has loaded is what is trusted to decide a gate: it is small, and no product is in it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.repository import ROOT
from test_imports import PRODUCTS

MAX_LINES, MAX_PRODUCT_MODULES = 28_000, 8


@pytest.mark.slow  # a daemon in a process of its own
def test_a_plain_daemon_loads_little_and_no_product() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "loaded.py", "--json"], stdout=subprocess.PIPE, check=True, text=True
    )
    loaded = json.loads(done.stdout)
    of_products = [name for name in loaded["modules"] if name.split(".")[1:2] and name.split(".")[1] in PRODUCTS]

    assert len(of_products) <= MAX_PRODUCT_MODULES, of_products
    assert not [
        name for name in loaded["modules"] if name.startswith(("hooklatch_worker.lsp", "hooklatch.shelltext.r"))
    ]
    assert "hooklatch.service.dispatch.dispatcher" in loaded["modules"]
    assert loaded["lines"] <= MAX_LINES
