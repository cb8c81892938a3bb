"""hooklatch replay and record cases: what was kept is fired at other hooks, and becomes cases.

Slow: it starts a daemon, and commands with workers of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from hooklatch.cli.schema import find_schema
from support.commands import CONFIG, GUARDS, Place, new_place, serving
from support.records import fill, needs_root, tiny_disk

pytestmark = pytest.mark.slow

FULL = CONFIG + '[record]\npayloads = "full"\n'
STRICTER = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash", where={"command": ["rm", "git push"]})
def no_push(event):
    if event.tool_input["command"].startswith("git"):
        return deny("a person pushes")
    return deny("no rm here")
"""
FIRED = ("ls", "rm -rf x", "git push", "curl --token sk-" + "a" * 30)


@pytest.fixture(scope="module")
def played() -> Iterator[Place]:
    """A place whose daemon has decided four commands, kept them, and ended."""
    with new_place({"hooks.toml": FULL, "guards.py": GUARDS}) as place:
        with serving(place):
            for command in FIRED:
                place.fire_tool("Bash", "--session", "s1", command=command)
        new = place.folder / "new"
        new.mkdir(mode=0o700)
        (new / "hooks.toml").write_text(CONFIG)
        (new / "guards.py").write_text(STRICTER)
        yield place


def state_of(place: Place) -> dict[str, bytes]:
    folder = place.folder / ".local" / "state"
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_replay_shows_what_would_change_and_touches_nothing(played: Place) -> None:
    before = state_of(played)

    report = played.json("replay", "--since", "1h", "--against", "new", code=1)

    assert state_of(played) == before
    assert before
    Draft202012Validator(find_schema("replay")).validate(report)
    assert (report["fired"], report["changed"], report["unkept"], report["lost"], report["redacted"]) == (4, 1, 0, 0, 1)
    assert report["changes"] == [{"then": "pass", "now": "deny by global/guards:no_push", "times": 1}]
    (changed,) = (one for one in report["fires"] if one["changed"])
    assert changed["now"] == {
        "verdict": "deny",
        "hook": "global/guards:no_push",
        "cause": "policy",
        "reason": "a person pushes",
    }
    assert (changed["tool"], changed["event"], changed["session"]) == ("Bash", "pre_tool_use", "s1")
    assert [one["redacted"] for one in report["fires"]][-1] == ["tool_input.command"]


def test_replay_says_it_in_a_table(played: Place) -> None:
    done = played.run("replay", "--against", "new")

    assert done.returncode == 1
    assert re.search(r"^pass +deny by global/guards:no_push +1 *$", done.stdout, re.MULTILINE)
    assert "4 decisions fired again, 1 would change" in done.stdout
    assert "1 of them had something redacted" in done.stderr


def test_against_the_same_hooks_nothing_changes(played: Place) -> None:
    for against in (("--against", str(played.config.parent)), ()):
        done = played.run("replay", *against, "--session", "s1")

        assert (done.returncode, done.stdout) == (0, "4 decisions fired again, 0 would change\n")


def test_hooks_that_do_not_load_are_a_finding(played: Place) -> None:
    broken = played.folder / "broken"
    broken.mkdir(mode=0o700, exist_ok=True)
    (broken / "hooks.toml").write_text('[[source]]\npath = "missing.py"\n')

    done = played.run("replay", "--against", "broken")

    assert done.returncode == 1
    assert "wrong with the hooks" in done.stderr


def test_without_kept_payloads_the_whole_excerpts_are_fired_and_the_rest_is_counted(played: Place) -> None:
    with new_place() as place:
        with serving(place):
            place.fire_tool("Bash", "--session", "s1", command="git push")
            place.fire_tool("Bash", command=f"git push {'x' * 600}")
            place.fire_tool("Bash", command=f"git push {'x' * 6000}")
        report = place.json("replay", "--against", str(played.folder / "new"), code=1)
        shown = place.run("replay", "--against", str(played.folder / "new"))

    assert (report["fired"], report["short"], report["changed"], report["unkept"], report["lost"]) == (1, 1, 1, 2, 0)
    (fired,) = report["fires"]
    assert (fired["session"], fired["now"]["reason"]) == ("s1", "a person pushes")
    assert "2 decisions could not be fired again: the payload is longer than the excerpt" in shown.stderr
    assert "git push  pass  deny by global/guards:no_push  pre_tool_use  Bash" in shown.stdout


def test_what_cannot_be_replayed_says_what_to_do(played: Place, place: Place) -> None:
    nothing = played.run("replay", "--against", "new", "--event", "stop")
    nowhere = played.run("replay", "--against", "nowhere")
    fresh = place.run("replay", "--against", str(played.folder / "new"))

    assert (nothing.returncode, nowhere.returncode, fresh.returncode) == (66, 66, 66)
    assert 'payloads = "full" in hooks.toml keeps them' in nothing.stderr
    assert "neither a hooks.toml nor a hooks.d" in nowhere.stderr
    assert "there is no record in" in fresh.stderr


def test_decisions_become_cases_that_pass(played: Place) -> None:
    written = played.json("record", "cases", "--verdict", "deny", "--to", "cases.jsonl")
    again = played.run("record", "cases", "--verdict", "deny", "--to", "cases.jsonl")
    tested = played.json("test", "cases.jsonl")

    (case,) = map(json.loads, (played.folder / "cases.jsonl").read_text().splitlines())
    assert written == {"cases": 1, "file": "cases.jsonl", "redacted": 0}
    assert case["expect"] == {"verdict": "deny", "hook": "guards:judge"}
    assert case["payload"]["tool_input"] == {"command": "rm -rf x"}
    assert (tested["passed"], tested["failed"]) == (1, 0)
    assert again.returncode == 74
    assert "exists and is not overwritten" in again.stderr
    assert (played.folder / "cases.jsonl").stat().st_mode & 0o777 == 0o600


def test_cases_are_chosen_by_number_and_redaction_is_said(played: Place) -> None:
    records = played.run("log", "--json", "--kind", "decision", "-n", "0").stdout.splitlines()
    seqs = [msgspec.json.decode(line)["seq"] for line in records]

    done = played.run("record", "cases", "--seq", f"{seqs[0]}-{seqs[1]}", "--seq", str(seqs[3]), "--to", "some.jsonl")
    other = played.run("record", "cases", "--to", "cases.toml")

    texts = (played.folder / "some.jsonl").read_text().splitlines()
    commands: list[Any] = [json.loads(text)["payload"]["tool_input"]["command"] for text in texts]
    assert commands == ["ls", "rm -rf x", "curl [redacted]"]
    assert f"record {seqs[3]}: tool_input.command" in done.stderr
    assert (done.returncode, other.returncode) == (0, 64)


def test_a_payload_that_was_changed_is_not_fired(played: Place) -> None:
    folder = played.folder / ".local" / "state" / "hooklatch" / "record" / "payloads"
    (path,) = folder.iterdir()
    data = path.read_bytes()
    try:
        Path(path).write_bytes(data.replace(b'"ls"', b'"rm"'))

        report = played.json("replay", "--against", "new", code=1)
        verified = played.run("log", "verify")
        path.unlink()
        gone = played.run("replay", "--against", "new")
    finally:
        path.write_bytes(data)

    assert (report["fired"], report["unkept"], report["lost"]) == (3, 1, 1)
    assert gone.returncode == 66
    assert "4 decisions" in gone.stderr
    assert "no payload of them is there: it was removed, by retention or by hand" in gone.stderr
    assert verified.returncode == 1
    assert "payload: the payload of record" in verified.stdout


def test_a_payload_that_can_be_read_in_two_ways_is_refused_again() -> None:
    twice = '{"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_name": "Read"}'
    expected = 'expect = {verdict = "deny", cause = "payload"}'
    case = f'[[case]]\nevent = "pre_tool_use"\npayload_file = "twice.json"\n{expected}\n'
    files = {"hooks.toml": FULL, "guards.py": GUARDS, "twice.json": twice, "policy-tests.toml": case}
    with new_place(files) as place:
        with serving(place):
            place.run("fire", "pre_tool_use", "--payload", "-", stdin=twice)
        replayed = place.run("replay", "--against", str(place.config.parent))
        written = place.run("record", "cases", "--to", "cases.jsonl")
        tested = place.run("test", str(place.config.parent / "policy-tests.toml"))

    assert (replayed.returncode, replayed.stdout) == (0, "1 decision fired again, 0 would change\n")
    assert "its payload can be read in two ways" in written.stderr
    assert (written.returncode, (place.folder / "cases.jsonl").exists()) == (66, False)
    assert tested.returncode == 0, tested.stdout


@needs_root
def test_a_full_disk_leaves_no_half_file_of_cases(played: Place, tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 64) as disk:
        ballast = fill(disk)
        done = played.run("record", "cases", "--to", str(disk / "cases.jsonl"))
        left = [path.name for path in disk.iterdir()]
        ballast.unlink()

    assert (done.returncode, left) == (74, ["ballast"])
    assert "cases.jsonl cannot be written: No space left on device" in done.stderr
