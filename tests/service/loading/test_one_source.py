"""What keeps one source from being built is the fault of that one: of the system, which may go away, or of ours."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooklatch.processes.environment_slot import Requirements
from hooklatch.service.config.configuration import FileConfig
from hooklatch.service.loading.build import SourceBuilder, find_wanted_versions
from hooklatch.service.loading.plan import NOTHING, ReloadPlan
from hooklatch.service.loading.sources import Sources
from hooklatch_worker.wire import Source


class Finder:
    """In place of the environments: whoever wants one gets an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def acquire(self, _: str | None, __: Requirements | None, *, may_make: bool) -> object:
        raise self._error


def short() -> OSError:
    return OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize(
    ("error", "text", "is_to_retry"),
    [
        (short, "Too many open files; fix it, or remove it", True),
        (ZeroDivisionError, "hooklatch failed with ZeroDivisionError", False),
    ],
)
async def test_what_keeps_one_source_from_being_built_is_its_own_fault(
    tmp_path: Path, error: Callable[[], Exception], text: str, is_to_retry: bool
) -> None:
    own, other = tmp_path / "own.py", tmp_path / "other.py"
    own.write_text("# /// script\n# dependencies = ['a']\n# ///\n")
    other.write_text("# /// script\n# dependencies = [\n# ///\n")
    unused: Any = None
    environments: Any = Finder(error())
    sources = Sources(unused, unused, {}, on_adopted=unused, environments=environments)
    wanted = {str(path): Source("file", str(path)) for path in (own, other)}
    plan = ReloadPlan(main=FileConfig(str(tmp_path / "hooks.toml")), wanted=wanted)

    versions = find_wanted_versions(plan, [], {}, ())
    built = await SourceBuilder(sources, plan, versions, [], {}, {}, accepts=NOTHING).build()

    assert text in built.faults[str(own)].message
    assert "is not TOML" in built.faults[str(other)].message
    assert built.is_to_retry is is_to_retry
