"""The recorded excerpt of a payload; no payload and no decision can prevent a record."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hooklatch.core.messages import CallOutcome
from hooklatch.core.payload import Payload
from hooklatch.record.redaction import Redactor, excerpt_object
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.chain import read_link
from support.records import SETTINGS, decision, fact, lines, opened, recorded, records
from support.tables import table


def test_a_decision_is_recorded_with_its_fire(tmp_path: Path) -> None:
    found = recorded(decision(), fact(call_id=7, host="claude-code", cwd="/home/me"), tmp_path)

    assert {key: value for key, value in found.items() if key not in ("seq", "prev", "at", "hash")} == {
        "kind": "decision", "decision_id": "d-1", "event": "pre_tool_use", "gate": True, "verdict": "deny",
        "cause": "policy", "reason": "no rm", "layer": "global", "hook": "guards:no_rm", "session": "s1",
        "call_id": "7", "host": "claude-code", "cwd": "/home/me", "revision": 7, "payload_digest": "ab" * 32,
        "payload_bytes": 64,
        "excerpt": {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}},
        "outcomes": [
            {"layer": "global", "hook": "guards:no_rm", "outcome": "answered", "verdict": "deny", "cause": "policy",
             "duration_ms": 1.5},
        ],
        "duration_ms": 2.5,
    }  # fmt: skip


def test_a_large_value_is_replaced_by_its_length(tmp_path: Path) -> None:
    found = recorded(decision(), fact({"path": "/f", "content": "x" * 4095}), tmp_path)

    assert found["excerpt"] == {"path": "/f", "content": {"omitted_bytes": 4097}}


def test_what_does_not_fit_is_cut_between_two_characters_and_says_so(tmp_path: Path) -> None:
    found = recorded(decision(), fact({"text": "é" * 100}), tmp_path, excerpt_bytes=20)

    assert "excerpt" not in found
    assert found["excerpt_cut"] == '{"text":"ééééé'


def test_what_fits_exactly_is_whole(tmp_path: Path) -> None:
    payload = {"text": "é" * 10}
    size = len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())

    assert recorded(decision(), fact(payload), tmp_path / "a", excerpt_bytes=size)["excerpt"] == payload
    assert "excerpt_cut" in recorded(decision(), fact(payload), tmp_path / "b", excerpt_bytes=size - 1)


def test_with_no_bytes_for_it_there_is_the_digest_alone(tmp_path: Path) -> None:
    found = recorded(decision(patch={"a": msgspec.Raw(b"1")}), fact(), tmp_path, excerpt_bytes=0)

    assert not {"excerpt", "excerpt_cut"} & {*found, *found["patch"]}
    assert found["payload_digest"] == "ab" * 32


def test_a_payload_with_line_ends_of_its_own_stays_on_one_line(tmp_path: Path) -> None:
    found = recorded(decision(), fact(b'{\n "a":\n {\r\n"b" : "c\\nd"} }'), tmp_path)

    assert found["excerpt"] == {"a": {"b": "c\nd"}}
    assert all(read_link(line) for line in lines(tmp_path))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b'"x"', b"{", b'{"a"', b"\xff", b'{"a":"\\ud800"}', b'{"a":' + b"[" * 50_000,
        b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", b'{"a":' + b'{"a":' * 600 + b"1" + b"}" * 600 + b"}",
        b'{"a":' + b"9" * 3000 + b"}", b'{"a":123456789012345678901234567890}', b'{"a":1e999}', b'{"a":NaN}',
        b'{"a":1,"a":2}', b'{"":{"":""}}', b'{"a":"\\u0000"}', b'{"%b":1}' % (b"k" * 100_000),
        b'{"a":' + b" " * 100_000 + b"1}", b"{" + b",".join(b'"%d":0' % n for n in range(50_000)) + b"}",
    ],
    ids=range(21),
)  # fmt: skip
def test_no_payload_keeps_a_decision_from_being_recorded(tmp_path: Path, data: bytes) -> None:
    found = recorded(decision(), fact(data), tmp_path)

    assert found["decision_id"] == "d-1"
    assert found.get("payload_bytes", 0) == len(data)
    assert len(lines(tmp_path)[2]) < 3000
    assert all(read_link(line) for line in lines(tmp_path))


def test_what_is_nested_deeper_than_anybody_looks_is_left_out(tmp_path: Path) -> None:
    found = recorded(decision(), fact(b'{"a":' + b"[" * 60 + b"]" * 60 + b"}"), tmp_path)

    assert found["excerpt"] == {"a": json.loads("[" * 51 + '"[too deep]"' + "]" * 51)}


def test_a_number_stays_as_long_as_it_is(tmp_path: Path) -> None:
    found = recorded(decision(), fact(b'{"a":123456789012345678901234567890}'), tmp_path)

    assert found["excerpt"] == {"a": 123456789012345678901234567890}


def test_a_large_payload_that_nobody_read_is_not_read_for_this(tmp_path: Path) -> None:
    payload = {"path": "/f", "content": "x" * 2**20}

    unread = recorded(decision(), fact(payload), tmp_path / "a")
    facts = fact(payload)
    assert facts.payload.fields
    read = recorded(decision(), facts, tmp_path / "b")

    assert "excerpt" not in unread
    assert read["excerpt"] == {"path": "/f", "content": {"omitted_bytes": 2**20 + 2}}


def test_a_person_is_told_that_a_very_long_payload_is_not_shown_whole() -> None:
    redactor = Redactor(RecordSettings())
    whole = excerpt_object(b'{"command":"ls"}', 2**14, redactor)
    long = excerpt_object(json.dumps({"command": "x" * 2**18}).encode(), 2**14, redactor)

    assert whole == (msgspec.Raw(b'{"command":"ls"}'), None)
    assert long == (None, f'{{"command":{{"omitted_bytes":{2**18 + 2}}}}}')


SECRET = "sk-abcdefghijklmnopqrstuvwx"


@table(
    ("data", "shown", "is_whole"),
    [
        (b'{"command":"ls"}', '{"command":"ls"}', True),
        (
            b'{"token":1,"a":[{"b":"%s ls"}]}' % SECRET.encode(),
            '{"token":"[redacted]","a":[{"b":"[redacted] ls"}]}',
            True,
        ),
        (b'{"a":' + b"[" * 51 + b"]" * 51 + b"}", '{"a":' + "[" * 51 + "]" * 51 + "}", True),
        (b'{"a":' + b"[" * 52 + b"]" * 52 + b"}", '{"a":' + "[" * 51 + '"[too deep]"' + "]" * 51 + "}", False),
        (b'{"a":"rm -rf ~","a":"ls"}', '{"a":"ls"}', False),  # which of them runs is for who reads it
        (b'{"%s":"rm","%sy":"ls"}' % (SECRET.encode(), SECRET.encode()), '{"[redacted]":"ls"}', False),
        (b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", "", False),
        (b'{"a":1e999}', "", False),
    ],
    ids=range(8),
)
def test_a_person_is_shown_all_but_secrets_or_told_that_it_is_not_all(data: bytes, shown: str, is_whole: bool) -> None:
    whole, rest = excerpt_object(data, 2**14, Redactor(RecordSettings()))

    assert (bytes(whole).decode() if whole is not None else None, rest) == (
        (shown, None) if is_whole else (None, shown)
    )


def test_a_payload_of_very_many_fields_that_nobody_read_is_not_read_for_this(tmp_path: Path) -> None:
    fields = {f"k{number}": 0 for number in range(10_001)}
    lines = {"path": "/f", "content": "if a:\n" * 9000}

    unread = recorded(decision(), fact(fields), tmp_path / "a")
    facts = fact(fields)
    assert facts.payload.fields
    read = recorded(decision(), facts, tmp_path / "b")
    text = recorded(decision(), fact(lines), tmp_path / "c")

    assert not {"excerpt", "excerpt_cut"} & set(unread)
    assert read["excerpt_cut"].startswith('{"k0":0,"k1":0,')
    assert text["excerpt"]["path"] == "/f"


def cost(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def test_what_a_large_payload_costs_here_is_less_than_what_it_cost_to_read(tmp_path: Path) -> None:
    many = Payload(b"{" + b",".join(b'"%07d":[[],[],{}]' % n for n in range(150_000)) + b"}")
    assert len(many.fields) == 150_000
    with opened(tmp_path, msgspec.structs.replace(SETTINGS, excerpt_bytes=64 * 1024)) as record:
        facts = msgspec.structs.replace(fact(), payload=many)

        # The best of several, since each is slowed at times by what else the machine does.
        spent = min(cost(lambda: record.append_decision(decision(), facts)) for _ in range(5))
        reading = min(cost(lambda: Payload(many.data).fields) for _ in range(5))

    assert spent < reading


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "x" * 10**6},
        {"warnings": ["w" * 10**5] * 1000},
        {
            "outcomes": [CallOutcome(layer="global", hook="h", outcome="failed", cause="crash", message="m" * 10**5)]
            * 3000
        },
        {"revision": 2**80},
        {"reason": "\ud800"},
        {"patch": {"a": msgspec.Raw(b'"' + b"x" * 10**6 + b'"')}},
    ],
    ids=["reason", "warnings", "outcomes", "revision", "surrogate", "patch"],
)
def test_no_decision_keeps_itself_from_being_recorded(tmp_path: Path, changes: dict[str, object]) -> None:
    with opened(tmp_path) as record:
        head = record.append_decision(decision(**changes), fact(session="s" * 10**6, call_id=2**100, cwd="\ud800"))

    assert head is not None
    assert all(read_link(line) and len(line) < 2 * 2**20 for line in lines(tmp_path))
    assert records(tmp_path)[head.seq - 1]["event"] == "pre_tool_use"


@pytest.mark.parametrize(
    "said",
    [
        {"patch": {"a": msgspec.Raw(b"1")}},
        {"stdout": "hunter2"},
        {"stderr": "hunter2"},
        {"truncated": True},
        {"command": "guard --key hunter2"},
        {"last": True},
    ],
    ids=lambda said: next(iter(said)),
)
def test_what_a_hook_printed_or_changed_is_not_in_its_outcome(tmp_path: Path, said: dict[str, Any]) -> None:
    silent = CallOutcome(layer="global", hook="h", outcome="answered", cause="policy")

    found = recorded(decision(outcomes=[silent, msgspec.structs.replace(silent, **said)]), fact(), tmp_path)

    assert found["outcomes"][0] == found["outcomes"][1]
    assert not set(said) & set(found["outcomes"][1])


def test_what_was_left_out_of_a_list_is_counted(tmp_path: Path) -> None:
    outcomes = [CallOutcome(layer="global", hook="h", outcome="answered", verdict="allow", cause="policy")] * 1005

    found = recorded(decision(warnings=["w"] * 25, outcomes=outcomes), fact(), tmp_path)

    assert (len(found["warnings"]), found["warnings_omitted"]) == (20, 5)
    assert (len(found["outcomes"]), found["outcomes_omitted"]) == (1000, 5)
