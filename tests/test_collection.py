"""The tests themselves: each has one name, which is the same in every process that collects it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.repository import ROOT


@pytest.mark.slow
def test_names_are_the_same_whatever_the_order_of_sets(request: pytest.FixtureRequest) -> None:
    """Slow: the files of this run are collected once more.  Several processes share the tests by their names."""
    names = {item.nodeid.removesuffix(f"@{group_of(item)}") for item in request.session.items}
    files = sorted({str(item.path) for item in request.session.items})
    another = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", *files],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": another},
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-2000:]
    assert names <= set(done.stdout.splitlines())
    assert not [name for name in names if " object at 0x" in name]


def group_of(item: pytest.Item) -> str:
    """Return the name of the group that is written behind its name where groups are kept together."""
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark else ""
