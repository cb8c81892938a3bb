"""Runs one test many times under load, each in a process of its own, and says how many failed and of what.

Some at once, beside processes that only compute: a test that depends on who is first, or on how long something takes,
fails in some of them.

Run: python tests/support/flaky.py TEST [--times N] [--at-once N]; `make flaky TEST=...` does, 50 times.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager

from rerun import Run, run

BURN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


@contextmanager
def load(processes: int) -> Generator[None]:
    """Have processes compute during the block."""
    burning = [subprocess.Popen([sys.executable, "-I", "-S", "-c", BURN]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def one_run(test: str, folder: str) -> Run:
    words = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", f"--basetemp={folder}", test]
    return run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run one test many times under load.")
    parser.add_argument("test", help="as pytest names it: FILE::TEST")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=4)
    options = parser.parse_args()
    passed, texts = 0, Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="flaky-") as folder,
        load(len(os.sched_getaffinity(0))),
        ThreadPoolExecutor(options.at_once) as threads,
    ):
        runs = [threads.submit(one_run, options.test, f"{folder}/{number}") for number in range(options.times)]
        for future in as_completed(runs):
            found = future.result()
            passed += not found.failures and not found.errors and bool(found.passed)
            errors = [f"{error}: `python -m pytest {options.test}` shows why" for error in found.errors]
            text = "\n".join([*errors, *(f"{failure.test}\n{failure.text}" for failure in found.failures)])
            if text:
                print(f"FAILED {text}" if text not in texts else "FAILED again", flush=True)
                texts[text] += 1
    print(f"{options.times - passed} failed, {passed} passed")
    return int(passed < options.times)


if __name__ == "__main__":
    sys.exit(main())
