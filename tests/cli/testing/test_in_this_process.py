"""`test --in-process`: which hooks run in this process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hooklatch.cli.testing.in_process import InProcessSource, Pools, print_sources_in_workers
from hooklatch_worker.wire import Source


def parts_with(**environments: object) -> Any:
    units = {
        name: SimpleNamespace(environment=environment, source=Source("file", name))
        for name, environment in environments.items()
    }
    pools = {(name, 1): f"pool of {name}" for name in units}
    return SimpleNamespace(sources=SimpleNamespace(units=units, pools=pools))


def test_a_source_with_packages_of_its_own_stays_in_its_workers(capsys: pytest.CaptureFixture[str]) -> None:
    parts = parts_with(plain=None, own=object())
    pools = Pools(parts)

    assert pools["own", 1] == "pool of own"
    assert isinstance(pools["plain", 1], InProcessSource)
    print_sources_in_workers(parts)
    said = capsys.readouterr().err
    assert "own has an environment of its own" in said
    assert "plain" not in said
