"""guards: what is there, copies that are one's own, and their cases.

Slow: each command is a process of its own.
"""

from __future__ import annotations

import re

import pytest

from hooklatch.guards.catalogue import list_gallery, read_guard_cases, read_guard_source
from support.commands import Place, new_place
from support.repository import ROOT

pytestmark = pytest.mark.slow


def test_the_list_names_every_guard_with_what_it_needs(place: Place) -> None:
    done = place.run("guards", "list")

    rows = {line.split()[0]: line for line in done.stdout.splitlines()[1:]}
    assert set(rows) == {one.name for one in list_gallery()}
    assert "hooklatch[guards-secrets]" in rows["secrets"]
    assert place.run("guards").stdout == done.stdout
    assert [one["name"] for one in place.json("guards", "list")] == sorted(rows)


def test_a_guard_is_shown_as_it_would_be_copied(place: Place) -> None:
    assert place.run("guards", "show", "git-rules").stdout == read_guard_source("git_rules")
    assert place.run("guards", "show", "git_rules", "--cases").stdout == read_guard_cases("git_rules")


def test_the_commands_of_the_page_work(place: Place) -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs/start/guards.md").read_text(), re.DOTALL | re.MULTILINE)

    for line in block.splitlines():
        done = place.run(*line.split()[1:])
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"


def test_an_unknown_guard_is_refused_with_the_nearest_and_nothing_is_written(place: Place) -> None:
    done = place.run("guards", "add", "git_rules", "secretz")

    assert (done.returncode, done.stdout) == (66, "")
    assert "the gallery has no guard 'secretz'; did you mean 'secrets'?" in done.stderr
    assert not (place.config.parent / "hooks.d").exists()


def test_copies_are_private_pass_their_cases_and_are_not_overwritten() -> None:
    """The two that remember run in workers here; the others' tables run in tests/guards."""
    with new_place({}) as place:
        folder = place.config.parent / "hooks.d"
        done = place.run("guards", "add", "ceilings", "injection_marks", "ceilings", umask=0)
        assert done.returncode == 0, done.stderr
        written = {path: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
        assert set(written.values()) == {0o700, 0o600}
        assert (folder / "ceilings.py").read_text() == read_guard_source("ceilings")
        assert "until" in done.stderr
        assert "has the table [state] with kept = true" in done.stderr

        again = place.run("guards", "add", "git_rules", "ceilings")
        assert again.returncode == 73
        assert "ceilings.jsonl is there already and was left as it is" in again.stderr
        assert not (folder / "git_rules.py").exists()

        tested = place.run("guards", "test")
        assert tested.returncode == 0, tested.stdout
        assert "ceilings.jsonl: 10 cases, 10 passed, 0 failed\n" in tested.stdout
        assert tested.stdout.count(", 0 failed") == 2
        assert "is no source" not in tested.stderr  # of the other guard, which is not asked

        (folder / "ceilings.py").write_text(read_guard_source("ceilings").replace("= 25.0", "= 2500.0"))
        assert place.run("guards", "test", "ceilings").returncode == 1


def test_a_guard_that_lacks_a_package_is_copied_with_a_warning(place: Place) -> None:
    hidden = place.folder / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys, importlib.abc\n"
        "class Hides(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'detect_secrets': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hides())\n"
    )

    done = place.run("guards", "add", "secrets", "--to", "mine", PYTHONPATH=str(hidden))

    assert done.returncode == 0
    assert "pip install 'hooklatch[guards-secrets]'" in done.stderr
    assert (place.folder / "mine" / "secrets.py").exists()


def test_where_nothing_can_be_tested_the_command_says_what_to_do(place: Place) -> None:
    done = place.run("guards", "test", "--in", "nowhere")

    assert done.returncode == 66
    assert "has no guard with cases; see: hooklatch guards add --help" in done.stderr
