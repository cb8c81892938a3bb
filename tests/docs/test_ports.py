"""The ports that the pages for people of other systems begin with, run as they stand by somebody who has only the page.

Slow: each builds a project with its language's own tools, and runs a daemon.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from support.pasted import new_home
from support.repository import ROOT

pytestmark = pytest.mark.slow

PATIENCE = 300  # seconds for one block; a compiler takes most of it
PROJECT = ROOT / "docs" / "project"
PORTS = {"beamagent": "mix", "ethos": "npm", "exathena": "mix", "radium": "cargo", "reasonix": "npm"}
TITLE = "## A port in five minutes\n"
BLOCK = re.compile(r"(?:^`([^`\n]+)`:\n+)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The machine may have no network, and the page needs none.
OFFLINE = {"CARGO_NET_OFFLINE": "true", "HEX_OFFLINE": "1", "npm_config_offline": "true", "npm_config_audit": "false"}


class Typed(msgspec.Struct):
    """A shell block, the files that are written before it, and the output that the page shows."""

    script: str
    files: dict[str, str]
    shown: str | None = None


def blocks_of(page: Path) -> list[Typed]:
    """Return what the port of a page has its reader do; the port must be the first section."""
    text = page.read_text()
    before, found, rest = text.partition(TITLE)
    assert found, f"{page.name} has no port"
    assert "\n## " not in before, f"the port of {page.name} is not its first section"
    files: dict[str, str] = {}
    typed: list[Typed] = []
    for name, language, block in BLOCK.findall(rest.partition("\n## ")[0]):
        if name:
            files[name] = block
        elif language == "text":
            typed[-1].shown = block
        else:
            assert language == "sh", f"a block of {language} names no file"
            typed.append(Typed(block, files))
            files = {}
    assert not files, f"{sorted(files)} is written, and nothing is run after it"
    assert any(block.shown for block in typed), "nothing shows what comes of it"
    return typed


def environment_of(home: Mapping[str, str]) -> dict[str, str]:
    """Return a new home's environment, with the toolchains that this machine keeps in another home."""
    kept = {name: os.environ[name] for name in ("CARGO_HOME", "RUSTUP_HOME") if name in os.environ}
    own = {name: str(Path.home() / folder) for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"))}
    found = {name: path for name, path in own.items() if Path(path).is_dir()}
    return {**found, **kept, **OFFLINE, "LANG": "C.UTF-8", **home, "HOOKLATCH_CHECKOUT": str(ROOT)}


def test_each_page_for_people_of_another_system_has_a_port() -> None:
    assert {page.stem.removeprefix("coming-from-") for page in PROJECT.glob("coming-from-*.md")} == PORTS.keys()


@pytest.mark.parametrize("system", PORTS)
def test_a_port_runs_from_its_page_alone(system: str, tmp_path: Path) -> None:
    typed = blocks_of(PROJECT / f"coming-from-{system}.md")
    if shutil.which(PORTS[system]) is None:
        pytest.skip(f"{PORTS[system]} is not installed")

    with new_home() as (home, environ):
        folder = home / "project"
        folder.mkdir()
        for number, block in enumerate(typed):
            for name, text in block.files.items():
                path = Path(name.replace("~", str(home), 1)) if name.startswith("~") else folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            script = tmp_path / f"{number}.sh"
            script.write_text(block.script)
            done = subprocess.run(
                ["bash", "-e", str(script)], cwd=folder, env=environment_of(environ), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=PATIENCE, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{block.script}\n{done.stdout}\n{done.stderr}"
            if block.shown is not None:
                assert done.stdout == block.shown, block.script
