"""Finds processes that outlived what they belonged to, wherever they fled: by a word in their environment."""

from __future__ import annotations

import os
import resource
import select
import signal
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress

from hooklatch_worker.systems import linux

COOKIE = "HOOKLATCH_TEST_COOKIE"
PATIENCE = 10.0  # seconds in which all must be gone; only a failing test waits so long


@contextmanager
def nobody_survives() -> Generator[str]:
    """Yield processes that are started inside a word to be known by; assert that all are gone soon after the block."""
    word = uuid.uuid4().hex
    os.environ[COOKIE] = word
    try:
        yield word
    finally:
        del os.environ[COOKIE]
        left = wait_until_gone(word)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert not left, f"processes survived: {left}"


def wait_until_gone(word: str) -> list[int]:
    """Wait until nobody knows the word any more; give those that still do when patience has ended."""
    deadline = time.monotonic() + PATIENCE
    while (left := knowing(word)) and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    return left


def knowing(word: str) -> list[int]:
    """List the processes that have the word in the environment with which they, or their parents, were started."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if word.encode() in file.read():
                        found.append(int(name))
            except OSError:
                continue
    return found


def waiting_for_an_order(zygote: int) -> set[int]:
    """Return the zygote's worker that waits for an order, if there is one just now: it has no limits of its own yet."""
    found: set[int] = set()
    for pid in linux.list_children(zygote):
        with suppress(ProcessLookupError):
            if resource.prlimit(pid, resource.RLIMIT_NOFILE) == resource.prlimit(zygote, resource.RLIMIT_NOFILE):
                found.add(pid)
    return found
