"""The same wire exchanges with every client: above all, no answer is a deny.

One program for each client, one scripted daemon for all.  A language without its toolchain is skipped by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clients.programs import Program
from clients.scripts import ScriptedServer, matches, scenarios
from hooklatch.core.hooks.catalogue import Catalogue
from support.strangers import as_root
from support.tables import table

NOBODYS = [scenario for scenario in scenarios() if scenario.get("listener") == "nobody's"]
SCENARIOS = [scenario for scenario in scenarios() if scenario not in NOBODYS]


@table("number, scenario", enumerate(SCENARIOS), ids=[scenario["name"] for scenario in SCENARIOS])
def test_a_client_keeps_to_the_file(program: Program, tmp_path: Path, number: int, scenario: dict[str, Any]) -> None:
    keep_to(program, tmp_path / str(number), scenario)


@as_root
@table("number, scenario", enumerate(NOBODYS), ids=[scenario["name"] for scenario in NOBODYS])
def test_a_client_keeps_to_the_file_with_another_user(
    program: Program, tmp_path: Path, number: int, scenario: dict[str, Any]
) -> None:
    keep_to(program, tmp_path / str(number), scenario)


def keep_to(program: Program, folder: Path, scenario: dict[str, Any]) -> None:
    folder.mkdir()
    server = ScriptedServer(folder / "agent.sock", scenario["connections"], kind=scenario.get("listener", "own"))
    if (scenario["connections"] or "listener" in scenario) and not scenario.get("late"):
        server.listen()

    for step in scenario["client"]:
        play(program, server, step)
    program.do(do="close")

    server.close()


def play(program: Program, server: ScriptedServer, step: dict[str, Any]) -> None:
    if step["do"] == "heard":
        server.wait_heard(step["count"])
    elif step["do"] == "listen":
        server.listen()
    else:
        command = {key: value for key, value in step.items() if key != "expect"}
        answer = program.do(**command, path=str(server.path)) if step["do"] == "open" else program.do(**command)
        assert "expect" not in step or matches(step["expect"], answer), (server.problems, step, answer)


def test_each_client_knows_which_events_cannot_refuse(program: Program, tmp_path: Path) -> None:
    catalogue = Catalogue.standard()
    program.do(do="open", path=str(tmp_path / "nobody.sock"))

    passing = {name for name in catalogue if program.do(do="fire", event=name, payload={})["allowed"]}

    assert passing == {name for name in catalogue if not catalogue.get(name).fails_closed}
