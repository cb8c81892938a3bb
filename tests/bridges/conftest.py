"""The daemon that the tests of each file ask, and a place where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bridged import Bridged, bridged


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridged]:
    with bridged(tmp_path_factory.mktemp("bridged")) as running:
        yield running


@pytest.fixture
def place(shared: Bridged) -> Bridged:
    shared.forget()
    return shared


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """A runtime directory without a daemon."""
    return str(tmp_path / "nowhere")
