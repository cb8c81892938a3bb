"""The programs of the sandbox for all tests of this folder; where the machine cannot run them, each says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guards.oracle.probes import probe
from guards.oracle.sandbox import Built, Lacking, Sandbox, built, lacking


@pytest.fixture(scope="session")
def programs() -> Iterator[Built]:
    if reason := lacking():
        pytest.skip(f"no text is run: {reason}")
    try:
        with built() as programs:
            probe(programs, is_short=True)
            yield programs
    except Lacking as error:
        pytest.skip(f"no text is run: {error}")


@pytest.fixture(scope="module")
def sandbox(programs: Built) -> Iterator[Sandbox]:
    with Sandbox(programs) as sandbox:
        yield sandbox
