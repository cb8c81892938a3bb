"""What a host shows of itself: what its daemon says is in force, asked again and again, and what stands in its record.

Knows the admin socket and the record's files; judges nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from chaos.arena import AdminRefusedError, DaemonGoneError
from fleet.system.history import Applied, Kept, Pen, Seen, now
from fleet.system.hosts import Host

__all__ = ["State", "Watcher", "records", "state_of"]

WATCHED = 0.2  # seconds between two questions to a daemon


class State(msgspec.Struct, frozen=True):
    """What a daemon says of its part of the fleet."""

    version: int
    bundle: str
    head: int
    record: int  # the newest record's number
    problems: list[str]


def state_of(host: Host) -> State | None:
    """Return what a host's daemon says; None if there is none."""
    try:
        status = host.status()
    except (DaemonGoneError, AdminRefusedError, TimeoutError):
        return None
    fleet = status["fleet"]
    applied = fleet["applied"] or {"version": 0, "bundle": ""}
    return State(
        applied["version"], applied["bundle"], fleet["head"]["version"], status["record"]["head"]["seq"],
        fleet["problems"],
    )  # fmt: skip


class Watcher:
    """Asks one host's daemon, again and again, what is in force there."""

    def __init__(self, host: Host, history: Path) -> None:
        self._host = host
        self._pen = Pen(history)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._pen.close()

    def _watch(self) -> None:
        while not self._is_over.wait(WATCHED):
            since = now()
            state = state_of(self._host)
            if state is not None:
                self._pen.write(Seen(self._host.name, state.version, state.bundle, state.head, since, now()))


def records(host: Host) -> Iterator[Kept | Applied]:
    """Yield what stands in a host's own record."""
    for path in sorted((host.state / "record").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            table: dict[str, Any] = json.loads(line)
            yield Kept(host.name, table["seq"], table["hash"], table.get("decision_id", ""), table.get("verdict"))
            if table["kind"] == "fleet" and table.get("action") == "applied":
                yield Applied(host.name, table["seq"], table["version"], table["bundle"])
