"""Drives the rows of a system through its own language: a daemon and a driver beside it, and what came of each row."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from clients.programs import Program, command_of
from conformance.driving import Case, Command, play
from conformance.table import Row, with_checks
from support.shared_daemon import daemon_in_thread

__all__ = ["LANGUAGES", "SYSTEMS", "Cases", "Driver", "cases_of", "driven_rows", "driving", "rows_of"]

SYSTEMS = {
    "ethos": "Ethos",
    "exathena": "ExAthena",
    "reasonix": "Reasonix",
    "radium": "Radium",
    "beam": "BeamAgent",
}
LANGUAGES = {"typescript": "TypeScript", "elixir": "Elixir", "rust": "Rust"}


class Cases(Protocol):
    """A module of `cases/`."""

    LANGUAGE: str
    FILES: Mapping[str, str]
    CASES: Mapping[str, Case]
    WIRE: Mapping[str, str]

    def opening(self, path: str, folder: str) -> list[Command]: ...


def cases_of(system: str) -> Cases:
    return cast("Cases", importlib.import_module(f"conformance.cases.{system}"))


def rows_of(system: str) -> tuple[Row, ...]:
    rows: tuple[Row, ...] = importlib.import_module(f"conformance.rows.{system}").ROWS
    return rows


class Driver:
    """A system's driver beside a daemon of its own."""

    def __init__(self, cases: Cases, program: Program, agent: str, folder: Path) -> None:
        self._cases = cases
        self._program = program
        self._agent = agent
        self._folder = folder

    def fault_of(self, row_id: str) -> str | None:
        """Play a row's case; return what is not as it has to be, or None."""
        opening = self._cases.opening(self._agent, str(self._folder))
        return play(self._cases.CASES[row_id], self._do, opening)

    def _do(self, command: Command) -> Any:
        return self._program.do(**command)


@contextmanager
def driving(system: str, folder: Path) -> Generator[Driver]:
    """Run a daemon and a driver; its sessions are opened in a folder that no row names."""
    cases = cases_of(system)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    command = command_of(cases.LANGUAGE)
    with daemon_in_thread(folder / "daemon", cases.FILES) as daemon, Program(command) as program:
        yield Driver(cases, program, daemon.agent, elsewhere)


def driven_rows(system: str) -> Iterator[Row]:
    """Return the rows that the system's language drives, in their order."""
    return (row for row in with_checks(rows_of(system)) if row.id in cases_of(system).CASES)
