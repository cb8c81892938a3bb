"""Wires between hosts and their engine: what can befall them, and which kind this machine can have.

Two kinds of one shape: network namespaces with virtual cables and a switch (`namespaces.py`; root), and loopback with a
relay in between that can be cut (`loopback.py`; anywhere).  Knows their shape alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

__all__ = ["CUTS", "ENGINE", "PUBLISHER", "Wires", "kinds", "lay"]

ENGINE = "engine"  # the name of the engine's node
PUBLISHER = "publisher"  # the name of the node from which publishers and auditors work
# Of a host: its own device goes down; the switch's side goes down; both stay up and every packet vanishes.
CUTS = ("down", "unplugged", "silent")


class Wires(Protocol):
    """A network of hosts and an engine; `close` leaves nothing of it."""

    kind: str
    listening: dict[str, str]  # the engine's settings that say where it listens

    def prefix(self, node: str) -> list[str]:
        """Return what to put before a command that is to run there."""
        ...

    def url(self, node: str, user: str) -> str:
        """Return how a node names the engine."""
        ...

    def cut(self, node: str, how: str) -> None:
        """Part a node from all others, in one of the ways of `CUTS`."""
        ...

    def slow(self, node: str) -> None:
        """Make a node's wire slow, until it is mended."""
        ...

    def mend(self, node: str) -> None:
        """Make a node's wire good again, whatever was done to it; come back when it carries."""
        ...

    def close(self) -> None: ...


def kinds() -> dict[str, str]:
    """Return why each kind of wires cannot be had here; empty where it can."""
    from fleet.network import namespaces

    return {"namespaces": namespaces.missing(), "loopback": ""}


def lay(kind: str, hosts: list[str], engine: Path) -> Wires:
    """Lay wires between these hosts, an engine (which listens on this Unix socket too) and a publisher."""
    from fleet.network.loopback import Loopback
    from fleet.network.namespaces import Namespaces

    nodes = [*hosts, PUBLISHER]
    return Namespaces(f"hl{os.getpid()}", nodes) if kind == "namespaces" else Loopback(nodes, engine)
