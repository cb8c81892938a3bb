"""log: the record's files for people and programs, without a daemon; verify and its exit codes.

Slow: each command is a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.record.storage.reading import KINDS
from hooklatch.record.writer import RecordWriter
from hooklatch.service.config.state_file import StateFile
from support.commands import Place, new_place, payload, serving
from support.records import SETTINGS, decision, fact, records, segments
from support.repository import ROOT

pytestmark = pytest.mark.slow
PROGRAM = f"{sys.executable} -m hooklatch"


@pytest.fixture
def place() -> Iterator[Place]:
    """Yield a place with a record of five decisions, as a daemon leaves it."""
    with new_place({"hooks.toml": ""}) as place:
        assert StateFile(str(folder_of(place).parent)).read() is None
        record = RecordWriter(str(folder_of(place)), SETTINGS)
        for number in range(4):
            record.append_decision(decision(number), fact(session=f"s{number % 2}"))
        record.append_decision(
            decision(4, verdict="pass", cause=None, hook=None, reason=None, event="stop"), fact(is_gate=False)
        )
        record.append("suspended", hook="guards:no_rm", reason="it is \x1b[31min the way")
        record.close()
        yield place


def folder_of(place: Place) -> Path:
    folder = place.folder / ".local/state/hooklatch/record"
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def test_one_line_a_record_oldest_first(place: Place) -> None:
    done = place.run("log")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 9
    assert lines[2][24:] == "  deny   rm -rf build  by guards:no_rm: no rm  Bash  2.5 ms  d-0  s0"
    assert lines[-1].endswith("stopped")


def test_by_shows_what_a_hook_decided_and_not_what_was_done_to_it(place: Place) -> None:
    lines = place.run("log", "--by", "guards:no_rm").stdout.splitlines()

    assert [line[26:30] for line in lines] == ["deny"] * 4
    assert "suspended" in place.run("log", "--hook", "guards:no_rm").stdout


def test_the_text_of_a_guard_is_one_short_line_and_whole_in_json(place: Place) -> None:
    text = '"""Refuse it."""\n' + "x = 1\n" * 1000
    record = RecordWriter(str(folder_of(place)), SETTINGS)
    record.append("source", location="guards.py", text=text)
    record.close()

    line = next(line for line in place.run("log", "--kind", "source").stdout.splitlines() if "guards.py" in line)
    assert line.endswith(f'text """Refuse it."""… ({len(text)} characters; --json has all)')
    assert json.loads(place.run("log", "--kind", "source", "--json").stdout.splitlines()[-1])["text"] == text
    # Whoever looks for a command does not look for the guards that name it, unless they ask for them.
    assert place.run("log", "--text", "refuse it").stdout == ""
    assert "guards.py" in place.run("log", "--text", "refuse it", "--kind", "source").stdout


def test_a_daemon_that_is_named_has_a_record_of_its_own(place: Place) -> None:
    with new_place() as other, serving(other):
        shown = place.run("log", "--json", "--runtime-dir", str(other.runtime))
    gone = place.run("log", "--json", "--runtime-dir", str(other.runtime))

    assert [json.loads(line)["kind"] for line in shown.stdout.splitlines()][1] == "started"
    assert json.loads(gone.stdout.splitlines()[2])["kind"] == "decision"
    assert f"hooklatch: this is the record in {folder_of(place)}: no daemon is reachable at " in gone.stderr


def test_a_name_that_is_not_utf_8_is_refused(place: Place) -> None:
    done = place.run("log", "--hook", os.fsdecode(b"\xe9"))

    assert done.returncode == 64
    assert "is not UTF-8" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_in_a_record_can_command_a_terminal(place: Place) -> None:
    done = place.run("log", "--kind", "suspended")

    assert "reason it is \\x1b[31min the way" in done.stdout
    assert "\x1b" not in done.stdout


def test_json_is_the_records_themselves_one_a_line(place: Place) -> None:
    done = place.run("log", "--json", "-n", "0")

    assert [json.loads(line) for line in done.stdout.splitlines()] == records(folder_of(place))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--session", "s0"], ["d-0", "d-2"]),
        (["--verdict", "pass", "--event", "stop"], ["d-4"]),
        (["--hook", "global/guards:no_rm", "--session", "s0", "--cause", "policy"], ["d-0", "d-2"]),
        (["--kind", "decision", "-n", "2"], ["d-3", "d-4"]),
        (
            ["--kind", "decision", "-n", "0", "--since", "1h", "--until", "2100-01-01"],
            ["d-0", "d-1", "d-2", "d-3", "d-4"],
        ),
        (["--since", "2100-01-01"], []),
    ],
)
def test_filters(place: Place, words: list[str], expected: list[str]) -> None:
    done = place.run("log", "--json", *words)

    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["decision_id"] for line in done.stdout.splitlines()] == expected


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--since", "yesterday"],
            "'yesterday' is not a time; write 2026-01-31 or 2026-01-31T12:00:00Z, or how long ago: 90s, 15m, 2h, 7d",
        ),
        (["-n", "x"], "'x' is not a number of records"),
        (["verify", "--witness", "3:xyz"], "'3:xyz' is not SEQ:HASH, with 16 to 64 hexadecimal digits"),
    ],
)
def test_misuse_is_told(place: Place, words: list[str], text: str) -> None:
    done = place.run("log", *words)

    assert done.returncode == 64
    assert text in done.stderr


@pytest.mark.parametrize("words", [[], ["verify"]])
def test_where_there_is_no_record_it_says_where_it_looked(place: Place, words: list[str]) -> None:
    done = place.run("log", *words, "--record", str(place.folder / "nothing"))

    assert done.returncode == 66
    assert f"there is no record in {place.folder}/nothing" in done.stderr


def test_another_folder_can_be_named_before_and_after_verify(place: Place) -> None:
    folder = str(folder_of(place))

    done = [
        place.run("log", *words, HOME="/nowhere") for words in (["--record", folder], ["verify", "--record", folder])
    ]

    assert [one.returncode for one in done] == [0, 0]


def test_follow_goes_on_until_it_is_interrupted(place: Place) -> None:
    (place.folder / "payload.json").write_text(payload("Bash", command="ls"))
    with serving(place):
        follow = place.begin("log", "--follow", "-n", "1", "--json")
        first = json.loads(follow.line())
        assert place.run("fire", "pre_tool_use", "--payload", "payload.json", "--session", "mine").returncode == 0
        while (record := json.loads(follow.line()))["kind"] != "decision":
            continue
        follow.signal(signal.SIGINT)
        code, _, err = follow.end()

    assert (code, err) == (0, "")
    assert first["seq"] < record["seq"]
    assert (record["session"], record["event"]) == ("mine", "pre_tool_use")


def test_what_a_daemon_recorded_is_verified_with_a_head_that_a_reply_carried(place: Place) -> None:
    with serving(place):
        told = json.loads(place.run("fire", "stop", "--json").stdout)["record"]
        living = place.run("log", "verify", "--witness", f"{told['seq']}:{told['hash']}")

    done = place.json("log", "verify", "--witness", f"{told['seq']}:{told['hash']}")

    assert living.returncode == 0, living.stdout
    assert f"{told['seq']}:{told['hash']} confirmed" in living.stdout
    assert (done["ok"], done["witnesses"][0]["result"], done["anchored_through"]) == (
        True,
        "confirmed",
        done["head"]["seq"],
    )


def test_a_theft_is_red_over_restarts_until_it_is_acknowledged_and_verify_goes_on_to_tell_it(place: Place) -> None:
    folder = folder_of(place)
    (path,) = segments(folder)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    (folder / "anchor").unlink()
    assert place.run("log", "verify").returncode == 1
    for _ in range(2):
        with serving(place):
            status = place.json("status", code=1)
            assert place.json("health", code=1)["reasons"] == ["record"]
            assert "records 6 to 9 are missing from the end" in " ".join(status["record"]["faults"])
    with serving(place):
        done = place.run("log", "acknowledge", "--reason", "the disk was cut")
        again = place.json("log", "acknowledge", "--reason", "once more")
        after = place.json("status")
    with serving(place):
        later = place.json("status")
    found = place.json("log", "verify", code=1)

    assert done.returncode == 0, done.stderr
    assert "records 6 to 9 are missing from the end" in done.stdout
    assert again == {"acknowledged": []}
    assert (after["record"]["faults"], later["record"]["faults"]) == ([], [])
    assert [finding["text"] for finding in found["findings"]] == ["records 6 to 9 are missing"]


def test_verify_says_what_it_proves_and_what_it_cannot(place: Place) -> None:
    done = place.run("log", "verify")

    assert done.returncode == 0, done.stdout
    assert "whole     1 to 9\n" in done.stdout
    assert "anchored  through 9\n" in done.stdout
    assert "proves    no record of this chain was changed" in done.stdout
    assert "cannot    prevent anything: it is tamper-evident, not tamper-proof." in done.stdout


def test_what_was_changed_is_named_and_the_exit_code_tells(place: Place) -> None:
    (path,) = segments(folder_of(place))
    path.write_bytes(path.read_bytes().replace(b'"verdict":"deny"', b'"verdict":"pass"', 1))

    done = place.run("log", "verify")

    assert done.returncode == 1
    assert "WRONG     altered: the line after record 2 does not match its hash (0000000000000001.jsonl)" in done.stdout
    assert place.json("log", "verify", code=1)["findings"][0]["seq"] == 3


def test_a_reader_that_leaves_is_no_error(place: Place) -> None:
    done = place.shell(f"{PROGRAM} log -n 0 | head -1", place.folder)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--verdict", "denny"], 64, "unknown verdict 'denny'; did you mean 'deny'?; there are pass, allow"),
        (["--cause", "crush"], 64, "unknown cause 'crush'; did you mean 'crash'?"),
        (["--kind", "decisions"], 64, "unknown kind 'decisions'; did you mean 'decision'?"),
        (["--event", "pre_tool_used"], 64, "the event 'pre_tool_used'; did you mean 'pre_tool_use'?"),
        (["--hook", "guards:no_rn"], 66, "the hook 'guards:no_rn'; did you mean 'guards:no_rm'?"),
        (["--hook", "plugin/guards:no_rm"], 66, "the hook 'plugin/guards:no_rm'; did you mean 'guards:no_rm'?"),
        (["--session", "s99"], 66, "the session 's99'"),
        (["--decision", "e-0"], 66, "the decision 'e-0'; did you mean 'd-0'?"),
        (["--decision", "e-0", "--json"], 66, "the decision 'e-0'; did you mean 'd-0'?"),
    ],
)
def test_a_filter_that_names_nothing_known_says_so(place: Place, words: list[str], code: int, text: str) -> None:
    done = place.run("log", *words)

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert text in done.stderr


@pytest.mark.parametrize(
    "words", [["--event", "message_claim"], ["--hook", "guards:no_rm", "--since", "2100-01-01"], ["--kind", "disk"]]
)
def test_what_is_known_and_did_not_happen_is_no_error(place: Place, words: list[str]) -> None:
    done = place.run("log", *words)

    assert (done.returncode, done.stdout) == (0, "")
    assert "no record in " in done.stderr


def test_the_kinds_are_those_that_are_written_and_documented() -> None:
    written: set[str] = set()
    for folder, pattern in (
        ("record", r"\.(?:append|_put)\(\s*\"(\w+)\"[,)]"),
        ("service", r"(?:note|note_operation)\(\s*\"(\w+)\","),
    ):
        for path in (ROOT / "supervisor" / "hooklatch" / folder).rglob("*.py"):
            written |= set(re.findall(pattern, path.read_text()))
    documented = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \|", (ROOT / "docs/reference/record.md").read_text(), re.MULTILINE
    )

    assert {"decision", "started", "quarantined"} <= written <= set(KINDS)
    assert {name for row in documented for name in re.findall(r"\w+", row)} >= set(KINDS)
