"""The same wire exchanges with every client: above all, no answer is a deny.

One program for each client, one scripted daemon for all.  A language without its toolchain is skipped by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clients.programs import Program
from clients.scripts import ScriptedServer, matches, scenarios
from hooklatch.core.hooks.catalogue import Catalogue
from support.tables import table

SCENARIOS = list(scenarios())


@table("number, scenario", enumerate(SCENARIOS), ids=[scenario["name"] for scenario in SCENARIOS])
def test_a_client_keeps_to_the_file(program: Program, tmp_path: Path, number: int, scenario: dict[str, Any]) -> None:
    server = ScriptedServer(tmp_path / f"{number}.sock", scenario["connections"])
    if scenario["connections"] and not scenario.get("late"):
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
