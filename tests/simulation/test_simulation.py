"""The simulation itself: one seed is one play, a dozen of seeds is clean, and nothing outside of the seed plays in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# Notes what of the real system a play touches: Python tells of each such call (PEP 578).
AUDITED = """
import json, sys
sys.path.insert(0, "tests")
touched, is_playing = {}, False
def note(event, arguments):
    if not is_playing:
        return
    if event == "_thread.start_new_thread" and not str(arguments[0]).startswith("<bound method Strand."):
        touched.setdefault(event, set()).add(str(arguments[0]))  # a thread without the baton
    kinds = "open", "os", "socket", "subprocess", "fcntl", "mmap", "signal"
    if event.partition(".")[0] in kinds:
        touched.setdefault(event, set()).add(str(arguments[0]) if arguments else "")
sys.addaudithook(note)
from simulation import run, world
prepare = world.World.prepare
def begin(self):
    global is_playing
    is_playing = True
    prepare(self)
world.World.prepare = begin
result = run.run_seed(5, 600)
is_playing = False
import time
bound = [
    f"{name}.{key}" for name, module in list(sys.modules.items()) if name.startswith("hooklatch")
    for key, value in vars(module).items() if value in (time.time, time.monotonic, time.time_ns)
]
print(json.dumps({"touched": {key: sorted(value) for key, value in touched.items()}, "bound": bound, "path": sys.path}))
"""


def simulate(*words: str, hash_seed: str = "random") -> tuple[int, dict[str, Any], str]:
    """Return the exit code, the last line and all that was said."""
    played = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *words], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )  # fmt: skip
    lines = played.stdout.splitlines()
    assert lines, played.stderr
    return played.returncode, json.loads(lines[-1]), played.stdout + played.stderr


@pytest.mark.slow  # plays a thousand fires
def test_one_seed_is_one_play_under_any_hash_seed() -> None:
    one, two = (simulate("--seed", "3", "--fires", "400", hash_seed=hash_seed)[1] for hash_seed in ("0", "77"))
    assert one["digest"] == two["digest"]
    took = {"seconds": 0, "cpu_seconds": 0}
    assert one | took == two | took
    assert simulate("--seed", "4", "--fires", "400")[1]["digest"] != one["digest"]


@pytest.mark.slow  # plays thousands of fires
def test_a_fixed_dozen_of_seeds_has_no_violation() -> None:
    code, last, said = simulate("--seeds", "1-12", "--fires", "250")
    assert (code, last["violations"]) == (0, 0), said
    assert last["seeds"] == 12
    assert last["fires"] >= 12 * 250


@pytest.mark.slow  # plays hundreds of fires
def test_nothing_but_imports_is_read_from_the_real_system() -> None:
    played = subprocess.run([sys.executable, "-c", AUDITED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stderr
    found = json.loads(played.stdout.splitlines()[-1])
    assert found["bound"] == []  # a clock that was taken before the simulated one stood there
    places = tuple({"/sim/", sys.prefix, sys.base_prefix, str(ROOT), "/dev/null", "/usr", *filter(None, found["path"])})
    for event in ("open", "os.listdir", "os.scandir"):
        # The parser opens a file with a syntax error by itself, and finds no /sim on any machine.
        outside = [path for path in found["touched"].pop(event, []) if path != "." and not path.startswith(places)]
        assert outside == [], event
    assert found["touched"] == {}
