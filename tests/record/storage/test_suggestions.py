"""Which of the commands that guards named were run: by session, exactly, and "unknown" where the record cannot tell."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
import pytest

from hooklatch.record.storage import suggestions
from hooklatch.record.storage.suggestions import SuggestionCounter
from support.records import SETTINGS, decision, fact, lines, opened
from support.tables import table

HOOK = "global/guards:no_rm"
GENTLE = "git push --force-with-lease"
SECRET = "AKIAIOSFODNN7EXAMPLE"


def offered(number: int, command: str = GENTLE, **changes: Any) -> Any:
    return decision(number, instead=command, **changes)


def passed(number: int, **changes: Any) -> Any:
    return decision(number, verdict="pass", cause=None, layer=None, hook=None, reason=None, outcomes=[], **changes)


def shell(command: object, **more: Any) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}, **more}


def counted(folder: Path, since: str = "") -> Any:
    counter = SuggestionCounter()
    for line in lines(folder):
        counter.take(line, since)
    return tuple(counter.count(HOOK, since).values())


@table(
    ("payload", "expected"),
    [
        (shell(f"  {GENTLE}\n"), (1, 1, 0)),  # but for the blanks around it
        (shell(GENTLE.split()), (1, 1, 0)),
        (shell(f"{GENTLE} origin x"), (1, 0, 0)),
        (shell("git  push --force-with-lease"), (1, 0, 0)),
        ({"tool_name": "Write", "tool_input": {"file_path": GENTLE}}, (1, 0, 0)),
        ({"tool_name": "mine", "tool_input": {"command": GENTLE}}, (1, 0, 0)),
        ({"tool_name": "mine", "tool_kind": "shell", "tool_input": {"command": GENTLE}}, (1, 1, 0)),
        (shell(f"git push {SECRET}"), (1, 0, 1)),  # what is left of it could be the beginning
        (shell(f"ls {SECRET}"), (1, 0, 0)),
        (shell(f"{GENTLE}{' ' * 600}"), (1, 0, 1)),
        (shell(f"ls {'x' * 600}"), (1, 0, 0)),
        ({"tool_input": {"content": "x" * 600}, "tool_name": "Bash"}, (1, 0, 1)),
        ({"tool_name": "Write", "tool_input": {"content": "x" * 600}}, (1, 0, 0)),
        ({"tool_name": "Bash", "tool_input": {"command": GENTLE, "token": "x" * 5000}}, (1, 0, 1)),
        (["git push", "x" * 600], (1, 0, 1)),
    ],
)
def test_only_exactly_that_command_takes_an_offer(tmp_path: Path, payload: Any, expected: tuple[int, ...]) -> None:
    folder = Path(mkdtemp(dir=tmp_path))
    with opened(folder) as record:
        record.append_decision(offered(1), fact())
        record.append_decision(passed(2), fact(shell(payload) if isinstance(payload, list) else payload))

    assert counted(folder) == expected


@table(
    ("later", "facts", "expected"),
    [
        (passed(2), {"session": "s2"}, (1, 0, 0)),
        (passed(2), {"claimed_session": "of a host"}, (1, 0, 0)),
        (passed(2), {"run": "r2"}, (1, 0, 0)),  # the same id, used again
        (passed(2), {"is_gate": False}, (1, 0, 0)),
        (decision(2), {}, (1, 0, 0)),
        (decision(2, verdict="ask"), {}, (1, 0, 0)),
        (decision(2, verdict="allow", cause="policy"), {}, (1, 1, 0)),
        (passed(2, event="user_prompt_submit"), {}, (1, 0, 0)),
    ],
)
def test_only_a_gate_of_the_same_session_that_passes_takes_an_offer(
    tmp_path: Path, later: Any, facts: dict[str, Any], expected: tuple[int, ...]
) -> None:
    folder = Path(mkdtemp(dir=tmp_path))
    with opened(folder) as record:
        record.append_decision(passed(1), fact(shell(GENTLE)))  # too early
        record.append_decision(offered(1), fact())
        record.append_decision(later, fact(shell(GENTLE), **facts))

    assert counted(folder) == expected


def test_each_denial_is_counted_once_and_all_that_named_the_command_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    with opened(folder) as record:
        for number in (1, 2):
            record.append_decision(offered(number), fact())
        record.append_decision(offered(3, "git push origin mine"), fact())
        for number in (4, 5):
            record.append_decision(passed(number), fact(shell(GENTLE)))
        record.append_decision(offered(6), fact())
        record.append_decision(decision(7, verdict="ask", instead=GENTLE), fact())  # no denial
        record.append_decision(decision(8, cause="crash", instead=GENTLE), fact())  # no word of the guard

    assert counted(folder) == (4, 2, 0)
    assert counted(folder, since="2100-01-01T00:00:00.000Z") == (0, 0, 0)


def test_what_is_not_on_record_is_unknown_until_the_command_comes(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    with opened(folder) as record:
        record.append_decision(offered(1, f"curl -H {SECRET} x"), fact())
        record.append_decision(offered(2), fact(session=None))
        record.append_decision(offered(3), fact())
        record.append_decision(passed(4), fact(shell("git push" + " " * 600)))
        record.append_decision(offered(5), fact())
    assert counted(folder) == (4, 0, 4)

    with opened(folder) as record:
        record.append_decision(passed(6), fact(shell(GENTLE)))
    assert counted(folder) == (4, 2, 2)
    assert SECRET.encode() not in b"".join(lines(folder))


def test_without_payloads_on_record_nothing_is_known(tmp_path: Path) -> None:
    folder, unseen = tmp_path / "record", msgspec.structs.replace(SETTINGS, excerpt_bytes=0)
    with opened(folder, unseen) as record:
        record.append_decision(offered(1), fact())
        record.append_decision(passed(2, event="user_prompt_submit"), fact({"prompt": "x"}))
    assert counted(folder) == (1, 0, 0)

    with opened(folder, unseen) as record:
        record.append_decision(passed(3), fact(shell(GENTLE)))
    assert counted(folder) == (1, 0, 1)


def test_offers_without_end_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "MAX_SESSIONS", 2)
    monkeypatch.setattr(suggestions, "MAX_OFFERS", 2)
    folder = tmp_path / "record"
    with opened(folder) as record:
        for number in range(4):
            record.append_decision(offered(number), fact(session=f"s{number}"))
        for number in range(4):
            record.append_decision(offered(number, f"git push origin {number}"), fact(session="s3"))

    offers, taken, unknown = counted(folder)
    assert (offers, taken, unknown) == (8, 0, 5)


def test_a_line_that_cannot_be_read_costs_nothing() -> None:
    counter = SuggestionCounter()
    for line in (b'{"kind":"decision","instead":"', json.dumps({"kind": "decision", "instead": 5}).encode(), b"\xff"):
        counter.take(line)

    assert counter.count(HOOK) == {"offered": 0, "taken": 0, "unknown": 0}
