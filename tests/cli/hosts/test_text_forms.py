"""Entries in files that are not JSON: Kimi Code's tables and Cline's scripts, and what is not ours beside them.

Slow: each command is a process of its own.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.cli.hosts.text_forms import add_tables, find_script_entry, is_script, make_script, remove_tables
from support.commands import Place
from support.tables import table

pytestmark = pytest.mark.slow

WORDS = [
    "/usr/bin/python3",
    "-I",
    "/opt/hooklatch/entry/entry.py",
    "kimi",
    "PreToolUse",
    "--kind",
    "gate",
    "--wait",
    "5",
]
OURS = {"PreToolUse": {"command": " ".join(WORDS), "timeout": 600}}
MINE = '# mine\ndefault_model = "fake"\n\n[[hooks]]\nevent = "Stop"\ncommand = "mine"\n\n[models.fake]\nmodel = "f"\n'
TEXTS = ["", MINE, MINE.rstrip("\n"), 'text = """\n[[hooks]]\nevent = "Stop"\n"""\n']


@table("text", TEXTS)
def test_tables_are_added_behind_what_is_there_and_taken_out_again(text: str) -> None:
    after = add_tables("f", text, OURS)

    assert tomllib.loads(after)["hooks"][-1] == {"event": "PreToolUse", **OURS["PreToolUse"]}
    assert after.startswith(text)
    assert tomllib.loads(remove_tables("f", after)) == tomllib.loads(text)


def test_tables_are_found_after_the_program_has_written_the_file_anew() -> None:
    anew = f"{MINE}\n[[hooks]]\ntimeout = 600\ncommand = '{' '.join(WORDS)}'\nevent = 'PreToolUse'\n\n[more]\n"

    assert tomllib.loads(remove_tables("f", anew)) == {**tomllib.loads(MINE), "more": {}}


@table("text", ["hooks = []\n", "hooks = 3\n", "[hooks]\na = 1\n", "a = \n"])
def test_a_file_that_tables_cannot_be_added_to_is_refused(text: str) -> None:
    with pytest.raises(FileError, match="nothing was changed"):
        add_tables("f", text, OURS)


def test_an_entry_of_ours_in_another_form_is_not_taken_for_nothing() -> None:
    inline = f'hooks = [{{event = "PreToolUse", command = "{" ".join(WORDS)}"}}]\n'

    with pytest.raises(FileError, match="cannot be told from others"):
        remove_tables("f", inline)


def test_a_script_says_which_entry_it_is() -> None:
    text = make_script(WORDS)

    assert is_script(text.encode())
    assert [(one.event, list(one.words)) for one in find_script_entry(text)] == [("PreToolUse", WORDS)]
    assert not list(find_script_entry(make_script(["true"])))


def test_settings_of_kimi_code_that_cannot_be_read_are_named_and_left(place: Place) -> None:
    path = written(place, ".kimi-code/config.toml", "default_model = \n")

    done = place.run("install", "kimi")

    assert done.returncode == 65
    assert f"{path}: " in done.stderr
    assert "line 1" in done.stderr
    assert path.read_text() == "default_model = \n"


def test_edits_since_the_install_stay(place: Place) -> None:
    path = written(place, ".kimi-code/config.toml", MINE)
    place.run("install", "kimi")
    path.write_text(path.read_text() + '\n[models.other]\nmodel = "o"\n')

    done = place.run("uninstall", "kimi")

    assert done.returncode == 0, done.stderr
    assert tomllib.loads(path.read_text()) == tomllib.loads(MINE + '\n[models.other]\nmodel = "o"\n')


def test_a_script_of_somebody_else_is_named_and_left(place: Place) -> None:
    path = written(place, ".cline/hooks/PreToolUse.bash", "#!/bin/sh\nmine\n")

    done = place.run("install", "cline")

    assert done.returncode == 73
    assert f"{path} is not hooklatch's" in done.stderr
    assert path.read_text() == "#!/bin/sh\nmine\n"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@table(("words", "why"), [
    (("kimi", "--project"), "reads no hooks of a project"),
    (("kimi", "--managed"), "no settings that only root can write"),
    (("goose", "--managed"), "no settings that only root can write"),
])  # fmt: skip
def test_a_layer_that_a_program_does_not_have_is_said(words: tuple[str, ...], why: str, place: Place) -> None:
    done = place.run("install", *words)

    assert done.returncode == 66
    assert why in done.stderr


def test_what_an_agents_service_can_switch_off_is_said(place: Place) -> None:
    assert "what can leave these hooks out without a word" in place.run("install", "auggie").stdout


def test_hooks_json_that_hides_droids_entries_is_found(place: Place) -> None:
    place.run("install", "droid")
    written(place, ".factory/hooks.json", '{"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}')

    found = place.json("doctor", code=1)["problems"]

    assert any("leaves out the hooks of settings.json" in one["what"] for one in found), found


def written(place: Place, name: str, text: str) -> Path:
    path = place.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
