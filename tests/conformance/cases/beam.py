"""The rows of beam that its own language's functions show.  Plain data."""

from __future__ import annotations

from typing import Final

from conformance.driving import Case, Command

__all__ = ["CASES", "FILES", "LANGUAGE", "WIRE", "opening"]

LANGUAGE: Final = "elixir"
FILES: Final[dict[str, str]] = {}  # what the daemon has: an operator's hooks, where a row is about those
CASES: Final[dict[str, Case]] = {}
WIRE: Final[dict[str, str]] = {}  # rows that only the wire proves, and why


def opening(path: str, folder: str) -> list[Command]:
    """Return the commands that open a session at a socket, in a folder unlike those that the rows name."""
    return [{"do": "open", "path": path, "dialect": "beam", "cwd": folder}]
