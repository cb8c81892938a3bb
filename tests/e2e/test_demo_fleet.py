"""`make demo-fleet` shows what it says, and leaves nothing behind.

Slow: it starts an engine, three daemons and three links, and runs some twenty commands as a person would.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.redis_server import needs_redis
from support.repository import ROOT
from support.survivors import nobody_survives

pytestmark = [
    pytest.mark.slow,
    needs_redis,
]
PUSH = "  git push   "


def test_the_demo_of_a_fleet_shows_one_policy_everywhere_and_leaves_nothing() -> None:
    with tempfile.TemporaryDirectory(prefix="hl-") as name:
        before = sorted(Path(name).iterdir())
        with nobody_survives() as word:
            environment = {"PATH": os.environ["PATH"], "HOME": name, "TMPDIR": name, "HOOKLATCH_TEST_COOKIE": word}
            done = subprocess.run(
                [sys.executable, ROOT / "examples" / "demo_fleet.py"], capture_output=True, text=True, timeout=150,
                check=False, env=environment,
            )  # fmt: skip

        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        assert sorted(Path(name).iterdir()) == before
    _, guard, cut, healed, record = done.stdout.split("\n\n", 4)
    assert guard.count("deny  force pushes rewrite") == 3
    assert [verdict(line) for line in cut.splitlines() if PUSH in line] == ["deny", "deny", "pass"]
    assert "all three are equal again" in healed
    assert [verdict(line) for line in healed.splitlines() if PUSH in line] == ["pass", "pass", "pass"]
    assert all(host in record for host in ("anna", "bert", "cleo"))


def verdict(line: str) -> str:
    return line.partition(PUSH)[2].split()[0]
