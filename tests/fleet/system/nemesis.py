"""The nemesis of a fleet: cuts wires, kills, stops, fills up, sets clocks wrong and lies, and pushes all the while.

Each kind of fault is a method of its own.  It ends with everything mended again, and a version pushed in the middle of
it, so that there is something to miss.  Knows the arena; judges no answer.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from fleet.network.wires import CUTS
from fleet.system.arena import Arena
from fleet.system.history import Fault, now
from fleet.system.hosts import FAKETIME, Host

__all__ = ["FAULTS", "Nemesis"]

GATES = 6  # that each host decides at least while something is wrong
RACES = 5  # at most, until two publishers were so close that one was refused
SKEWS = ("+3d", "-3d", "+90s", "-2h")


class Nemesis:
    """Does one fault after another, the same ones for the same seed."""

    def __init__(self, arena: Arena, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.left_out: dict[str, str] = {}
        self.healing: dict[str, float] = {}  # the most seconds from a fault's end until all hosts were equal
        self._arena = arena
        self._random = random.Random(seed)

    def play(self, kinds: Sequence[str]) -> None:
        """Do these faults in a random order; after each, see that all hosts come to what was pushed."""
        deck = list(kinds)
        self._random.shuffle(deck)
        for kind in deck:
            self.step(kind)

    def step(self, kind: str) -> None:
        if reason := self._impossible(kind):
            self.left_out[kind] = reason
            return
        host = self._random.choice(self._arena.hosts)
        self._arena.write(Fault(kind, now(), host.name))
        getattr(self, kind)(host)
        self.done[kind] += 1
        self.healing[kind] = max(self.healing.get(kind, 0.0), self._arena.heal())

    def _impossible(self, kind: str) -> str:
        if kind == "wrong_clock" and not FAKETIME:
            return "libfaketime is not installed (Debian: faketime)"
        if kind == "fill_disk" and not self._arena.has_own_disk:
            return "a small disk needs root, to mount it"
        return ""

    # -- publishers ------------------------------------------------------------------------------------------------

    def push(self, _: Host) -> None:
        self._arena.push()

    def race(self, _: Host) -> None:
        """Two publishers push at the same moment: one wins, the other is told."""
        assert any(self._arena.race() for _ in range(RACES)), "no publisher ever lost a race"

    def roll_back(self, _: Host) -> None:
        self._arena.roll_back()

    # -- wires -----------------------------------------------------------------------------------------------------

    def cut_down(self, host: Host) -> None:
        self._cut([host], "down")

    def cut_unplugged(self, host: Host) -> None:
        self._cut([host], "unplugged")

    def cut_silent(self, host: Host) -> None:
        self._cut([host], "silent")

    def cut_all(self, _: Host) -> None:
        self._cut(self._arena.hosts, self._random.choice(CUTS))

    def slow_wire(self, host: Host) -> None:
        self._arena.wires.slow(host.name)
        with self._arena.pushing():
            self._breathe()
        self._arena.wires.mend(host.name)

    def _cut(self, hosts: Sequence[Host], how: str) -> None:
        for host in hosts:
            self._arena.wires.cut(host.name, how)
        with self._arena.pushing():
            self._breathe()
        for host in hosts:
            self._arena.wires.mend(host.name)

    # -- processes -------------------------------------------------------------------------------------------------

    def kill_link(self, host: Host) -> None:
        host.kill_link()
        with self._arena.pushing():
            self._breathe()
        host.start_link()

    def kill_daemon(self, host: Host) -> None:
        host.kill_daemon()
        with self._arena.pushing():
            self._breathe(lambda other: other is not host)
        host.start_daemon()

    def restart_alone(self, host: Host) -> None:
        """Kill the daemon of a host that is cut off and has no link: what it has must come from its disk."""
        self._arena.wires.cut(host.name, "silent")
        host.kill_link()
        host.kill_daemon()
        host.start_daemon()
        with self._arena.pushing():
            self._breathe()
        self._arena.wires.mend(host.name)
        host.start_link()

    def stop_link(self, host: Host) -> None:
        host.pause(host.link)
        with self._arena.pushing():
            self._breathe()
        host.pause(host.link, is_paused=False)

    def stop_daemon(self, host: Host) -> None:
        host.pause(host.daemon)
        with self._arena.pushing():
            self._breathe(lambda other: other is not host)
        host.pause(host.daemon, is_paused=False)

    def wrong_clock(self, host: Host) -> None:
        """Start a host's daemon and link again, by another wall clock."""
        host.kill_link()
        host.kill_daemon()
        host.skew = self._random.choice(SKEWS)
        host.start_daemon()
        host.start_link()
        with self._arena.pushing():
            self._breathe()

    # -- the engine ------------------------------------------------------------------------------------------------

    def kill_engine(self, _: Host) -> None:
        with self._arena.pushing(is_certain=False):
            self._arena.server.kill()
            self._breathe()
            self._arena.server.start()

    def fill_disk(self, _: Host) -> None:
        """Leave the engine no room; it ends, since it may acknowledge nothing that is not on its disk."""
        self._arena.fill_disk()
        with self._arena.pushing(is_certain=False):
            self._breathe()
        self._arena.empty_disk()
        self._arena.server.kill()
        self._arena.server.start()
        self._arena.push()

    # --------------------------------------------------------------------------------------------------------------

    def _breathe(self, is_meant: Callable[[Host], bool] = lambda host: True) -> None:
        """Let the hosts that can decide some gates."""
        self._arena.await_gates([host for host in self._arena.hosts if is_meant(host)], GATES)


FAULTS = [name for name, value in vars(Nemesis).items() if not name.startswith("_") and name not in ("play", "step")]
