"""Settings and fixtures of the suite with the real programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("real_hosts.cases")

from real_hosts.bare import bare_results  # noqa: E402  (after the line above)
from real_hosts.guarded import guarded_results  # noqa: E402
from real_hosts.rows import Result  # noqa: E402
from real_hosts.theatre import Stage, on_stage, why_there_is_no_namespace  # noqa: E402
from support.survivors import nobody_survives  # noqa: E402


@pytest.fixture(scope="class")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Run a stage for the programs of a file; skip where the program, or what keeps it off the network, is missing."""
    host = request.cls.host
    if reason := host.program.why_not or why_there_is_no_namespace():
        pytest.skip(reason)
    with nobody_survives(), on_stage() as stage:
        yield stage


@pytest.fixture(scope="class")
def bare(request: pytest.FixtureRequest, stage: Stage) -> dict[str, Result]:
    """What came of each row with one plain hook and no hooklatch, played once for a program."""
    return bare_results(request.cls.host, stage)


@pytest.fixture(scope="class")
def with_hooklatch(request: pytest.FixtureRequest, stage: Stage) -> dict[str, Result]:
    """What came of each row with hooklatch's guards, played once for a program."""
    return guarded_results(request.cls.host, stage)
