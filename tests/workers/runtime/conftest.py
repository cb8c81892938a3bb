"""Workers for shell hooks: a shared one, and one for the test that checks what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.runtime.shell_driven import Driven


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    driven = Driven(str(tmp_path_factory.mktemp("session")))
    yield driven
    driven.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Driven]:
    driven = Driven(str(tmp_path))
    yield driven
    driven.close()
