"""Random scripts on fake workers: whatever sessions and an admin do, the daemon says what the oracle says."""

from __future__ import annotations

import functools
import logging
from collections.abc import Generator

import pytest
import trio
from hypothesis import given
from trio.testing import MockClock

from hooklatch.dialects import installed
from model.play import play
from model.scripts import Script, scripts
from support.fake_pool import running_fakes
from support.profiles import MODEL_FAST, examples


@pytest.fixture(autouse=True)
def silence() -> Generator[None]:
    """Keep hundreds of scripts from logging each failure that they make on purpose."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read which packages are installed once, not with each of hundreds of daemons."""
    monkeypatch.setattr(installed, "entry_points", functools.cache(installed.entry_points))


@pytest.fixture(autouse=True)
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every thread: a clock that jumps while a thread works ends a hook that had time left."""

    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a thread is started, for which a clock that jumps does not wait")

    monkeypatch.setattr(trio.to_thread, "run_sync", refuse)


async def run(script: Script) -> None:
    async with running_fakes() as place:
        await play(script, place, "")


@pytest.mark.slow  # hundreds of scripts
@pytest.mark.timeout(3600)
@examples(MODEL_FAST)
@given(scripts())
def test_the_daemon_says_what_the_oracle_says(script: Script) -> None:
    trio.run(run, script, clock=MockClock(autojump_threshold=0))
