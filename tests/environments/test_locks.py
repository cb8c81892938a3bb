"""A lock that is written while its environment is found: what was read is not taken for what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooklatch.processes.environment_slot import Requirements
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.service.loading.sources import Sources, UnitError, read_source_version
from hooklatch_worker.wire import Source

LOCK = "# /// script\n# dependencies = ['a']\n# [tool.hooklatch]\n# lock = 'a.lock'\n# ///\n"


class Found:
    """Finds an environment at once, after something else has happened, and counts who gave it up."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile = meanwhile
        self.watched: list[str] = []
        self.released = 0

    async def acquire(self, _: str | None, __: Requirements | None, *, may_make: bool) -> Found:
        assert may_make
        self.meanwhile()
        return self

    def watch(self, path: str) -> None:
        self.watched.append(path)

    def release(self, _: Found) -> None:
        self.released += 1


async def test_a_lock_that_changes_while_its_environment_is_found_is_read_again(tmp_path: Path) -> None:
    guards, lock = tmp_path / "guards.py", tmp_path / "a.lock"
    guards.write_text(LOCK)
    lock.write_text(f"a==1 --hash=sha256:{hashlib.sha256(b'1').hexdigest()}\n")
    found = Found(lambda: lock.write_text(f"a==2 --hash=sha256:{hashlib.sha256(b'2').hexdigest()}\n"))
    unused: Any = None
    environments: Any = found
    sources = Sources(unused, unused, {}, on_adopted=unused, environments=environments)
    version = read_source_version(Source("file", str(guards)))
    version = type(version)(
        version.source, version.code, version.stamps, 0, None, None, version.find_requirements(), True
    )

    with pytest.raises(UnitError, match="changed while its environment was prepared") as caught:
        await sources.build(version, PoolLimits())

    assert caught.value.is_passing
    assert (found.watched, found.released) == ([str(lock)], 1)
