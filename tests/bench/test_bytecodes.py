"""A fire takes no more bytecodes than was agreed: growth is seen on the day it is written, on any machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.repository import ROOT

MOST = {"daemon": 3584, "worker": 370}
SCRIPT = ROOT / "bench" / "bytecodes.py"


@pytest.mark.slow  # a daemon and a worker that count each bytecode
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the bounds are those of 3.11, other versions have others")
def test_a_fire_takes_no_more_bytecodes_than_its_bounds() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--quick", "--json"], stdout=subprocess.PIPE, check=True, text=True)
    (line,) = done.stdout.splitlines()
    found = json.loads(line)

    assert found.keys() == MOST.keys()
    assert all(0 < found[name] <= bound for name, bound in MOST.items()), f"{found}: see python {SCRIPT}"
