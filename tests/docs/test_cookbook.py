"""docs/guides/cookbook.md: each recipe loads, and each row of its table is what comes of it.

Slow: each recipe has a daemon and workers of its own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.daemons import running_daemon
from support.repository import ROOT

PAGE = (ROOT / "docs/guides/cookbook.md").read_text()
RECIPES = {
    match[1]: match[2] for match in re.finditer(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
BLOCK = re.compile(r"^```(python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| `(\{.*\})` \| (\w+)(?:, with `(.+)`)? \|$", re.MULTILINE)
NAMES = {"python": "hooks.d/recipe.py", "toml": "hooks.toml"}


def test_there_are_ten() -> None:
    assert len(RECIPES) == 10
    assert all(BLOCK.search(text) and ROW.search(text) for text in RECIPES.values())
    assert len(ROW.findall(PAGE)) == len(re.findall(r"^\| `", PAGE, re.MULTILINE)), "a row that no test can read"


@pytest.mark.slow
@pytest.mark.parametrize("title", RECIPES)
async def test_a_recipe_does_what_its_table_says(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    files = {NAMES[language]: text for language, text in BLOCK.findall(RECIPES[title])}

    async with running_daemon(tmp_path, files) as daemon, daemon.session(cwd=str(tmp_path / "work")) as client:
        assert daemon.parts.reloader.active.diagnostics == []
        for event, payload, verdict, text in ROW.findall(RECIPES[title]):
            decision = await client.fire(event, **json.loads(payload))

            assert decision["verdict"] == verdict, decision
            assert {one["outcome"] for one in decision.get("outcomes", [])} <= {"answered"}, decision
            assert text in json.dumps({**decision, "outcomes": None}), decision
