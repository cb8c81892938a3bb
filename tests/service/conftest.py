"""The daemon of tests that send it what no client should."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from support.daemons import Daemon, running_daemon
from support.rough import GUARDS


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    """A daemon of which another client is a user before and after."""
    async with (
        running_daemon(tmp_path, {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}) as d,
        d.session() as bystander,
    ):
        yield d
        with trio.fail_after(5):
            assert (await bystander.fire_tool("Bash"))["reason"] == "no"
