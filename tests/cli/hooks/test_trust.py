"""trust: what it pins, what it shows, and how it is revoked.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import Place, new_place, payload, serving

pytestmark = pytest.mark.slow

GUARDS = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no_bash(event):
    return deny("not in this project")
"""


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place({"hooks.toml": ""}) as place, serving(place):
        hooks = place.folder / ".hooklatch"
        hooks.mkdir(mode=0o700)
        (hooks / "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')
        (hooks / "guards.py").write_text(GUARDS)
        yield place


def verdict(place: Place, folder: Path) -> str:
    done = place.run("fire", "pre_tool_use", "--payload", "-", "--json", "--cwd", str(folder), stdin=payload("Bash"))
    return str(json.loads(done.stdout)["verdict"])


def test_this_folder_is_trusted_by_default(place: Place) -> None:
    assert verdict(place, place.folder) == "pass"

    done = place.run("trust")

    assert done.returncode == 0, done.stderr
    assert f"trusted {place.folder}, with these files and no others:" in done.stdout
    assert "  guards.py" in done.stdout
    assert "  guards:no_bash on pre_tool_use\n" in done.stdout
    assert verdict(place, place.folder) == "deny"


def test_the_folder_of_its_hooks_means_the_project(place: Place) -> None:
    done = place.run("trust", ".hooklatch")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"trusted {place.folder}, with these files and no others:")


def test_a_change_is_refused_until_it_is_trusted(place: Place) -> None:
    place.run("trust")
    (place.folder / ".hooklatch/guards.py").write_text(GUARDS.replace("not in", "never in"))

    refused = place.fire_tool("Bash", "--cwd", str(place.folder))
    again = place.run("trust", str(place.folder))
    after = place.fire_tool("Bash", "--cwd", str(place.folder))

    assert refused.returncode == 4
    assert (
        f"has changed since it was trusted (changed guards.py); look at it, then: hooklatch trust {place.folder}"
        in (refused.stdout)
    )
    assert again.returncode == 0
    assert "never in this project" in after.stdout


def test_it_is_listed_and_revoked(place: Place) -> None:
    place.json("trust")

    (listed,) = place.json("trust", "--list")["projects"]
    revoked = place.run("trust", "--revoke")
    twice = place.json("trust", "--revoke")

    assert (listed["folder"], listed["hooks"]) == (str(place.folder), ["guards:no_bash"])
    assert revoked.stdout.startswith(f"{place.folder} is not trusted any more")
    assert twice["was_trusted"] is False
    assert place.run("trust", "--list").stdout == "no project is trusted\n"
    assert verdict(place, place.folder) == "pass"


def test_a_project_that_does_not_load_is_trusted_and_says_so(place: Place) -> None:
    (place.folder / ".hooklatch/guards.py").write_text("import nothing_of_that_name")

    done = place.run("trust")

    assert done.returncode == 1
    assert "wrong: " in done.stdout
    assert "nothing_of_that_name" in done.stdout


def test_a_folder_without_hooks_is_an_error(place: Place) -> None:
    done = place.run("trust", str(place.runtime))

    assert done.returncode == 66
    assert "there is nothing to trust" in done.stderr


def test_a_folder_that_others_can_write_to_is_refused(place: Place) -> None:
    (place.folder / ".hooklatch").chmod(0o777)

    done = place.run("trust")

    assert done.returncode == 77
    assert "fix it with: chmod go-w" in done.stderr
