"""The programs of the sandbox for all tests of this folder; where the machine cannot run them, each says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guards.oracle.sandbox import Built, Lacking, Sandbox, built, lacking


@pytest.fixture(scope="session")
def programs() -> Iterator[Built]:
    if reason := lacking():
        pytest.skip(f"no text is run: {reason}")
    try:
        with built() as programs:
            with Sandbox(programs) as sandbox:
                sandbox.run("bash", b":")
            yield programs
    except Lacking as error:
        pytest.skip(f"no text is run: {error}")
