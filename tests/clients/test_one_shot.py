"""`hooklatch fire` reads answers as the clients do: the rows of conformance.jsonl that edit one, in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clients.scripts import ScriptedServer, matches, scenarios
from hooklatch.cli.commands import run
from support.tables import table

EDITED = [one for one in scenarios() if one["name"].startswith("an edited answer")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@table("number, scenario", enumerate(EDITED), ids=[scenario["name"] for scenario in EDITED])
def test_a_one_shot_keeps_to_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str], number: int, scenario: dict[str, Any]
) -> None:
    place = folder / str(number)
    place.mkdir(mode=0o700)
    ((_, *script),) = scenario["connections"]  # without the welcome
    server = ScriptedServer(place / "agent.sock", [script])
    server.listen()
    (_, fire) = scenario["client"]
    expected = {key: value for key, value in fire["expect"].items() if key in ("verdict", "cause", "hook")}

    code = run(["fire", fire["event"], "--runtime-dir", str(place), "--json"])

    server.close()
    assert matches(expected, json.loads(capsys.readouterr().out))
    assert code == (0 if expected["verdict"] == "allow" else 4)
