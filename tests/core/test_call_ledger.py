"""What ran is compared with what was asked: by scripts of what a host reports."""

from __future__ import annotations

import json

import msgspec

from hooklatch.core import call_ledger
from hooklatch.core.call_ledger import CallKey, CallLedger
from support.native import decided
from support.tables import table

# A line is: ask|run|change, the call's id ("-" without one), its tool, its input; an `ask` ends with its verdict, and
# the input that hooks made of it.  Each `run` says what it comes to.
SCRIPTS = {
    "as it was judged": "ask 1 Bash a pass; run 1 Bash a",
    "allowed and asked about": "ask 1 Bash a allow; ask 2 Bash b ask; run 2 Bash b; run 1 Bash a",
    "refused": "ask 1 Bash a deny; run 1 Bash a = overruled",
    "ended by a hook": "ask 1 Bash a halt; run 1 Bash a = overruled",
    "never answered": "ask 1 Bash a; run 1 Bash a = overruled",
    "never asked": "run 1 Bash a = unasked",
    "another was asked": "ask 1 Bash a pass; run 2 Bash a = unasked",
    "another input": "ask 1 Bash a pass; run 1 Bash b = altered",
    "as hooks have made it": "ask 1 Bash a pass b; run 1 Bash b",
    "as before hooks had made it other": "ask 1 Bash a pass b; run 1 Bash a = altered",
    "as hooks have made it at the dialog": "ask 1 Bash a pass; change 1 Bash a b; run 1 Bash b",
    "a dialog about another call": "ask 1 Bash a pass; change 2 Bash a b; run 1 Bash b = altered",
    "at once": "ask 1 Bash a pass; ask 2 Bash b pass; run 2 Bash b; run 1 Bash a",
    "told twice": "ask 1 Bash a pass; run 1 Bash a; run 1 Bash a",
    "without ids": "ask - Bash a pass; run - Bash a",
    "without ids, at once": "ask - Bash a pass; ask - Bash b pass; run - Bash b; run - Bash a",
    "without ids, alike": "ask - Bash a pass; ask - Bash a pass; run - Bash a; run - Bash a",
    "without ids, refused": "ask - Bash a deny; run - Bash a = overruled",
    "without ids, refused and then allowed": "ask - Bash a deny; ask - Bash a pass; run - Bash a",
    "without ids, then refused": "ask - Bash a pass; run - Bash a; ask - Bash a deny; run - Bash a = overruled",
    "without ids, another input": "ask - Bash a pass; run - Bash b = altered",
    "without ids, another tool": "ask - Bash a pass; run - Write b = unasked",
    "without ids, another name of the tool": "ask - Bash a pass; run - shell a",
    "without ids, one refused, one of another input": "ask - Bash a deny; ask - Bash b pass; run - Bash c = altered",
    "without ids, as hooks have made it": "ask - Bash a pass b; run - Bash b",
    "asked without an id and told with one": "ask - Bash a pass; run 1 Bash a",
    "asked without an id and told with one, other": "ask - Bash a pass; run 1 Bash b = unasked",
}


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"command": text}))


def play(script: str, *, is_hosts: bool = True, ledger: CallLedger | None = None) -> tuple[list[str], list[str]]:
    """Return what each run comes to, and what it was expected to come to."""
    ledger = ledger or CallLedger()
    came: list[str] = []
    expected: list[str] = []
    for line in script.split("; "):
        action, call_id, tool, given, *more = line.split()
        key = CallKey("host", "session", tool, None if call_id == "-" else call_id, is_hosts)
        if action == "ask":
            patch = {"tool_input": raw(more[1])} if more[1:] else None
            ledger.ask(key, "d", raw(given), decided(more[0], patch=patch) if more else None)
        elif action == "change":
            ledger.change(key, decided("allow", patch={"tool_input": raw(more[0])}), raw(given))
        else:
            mismatch = ledger.run(key, raw(given))
            came.append(mismatch.cause if mismatch is not None else "as judged")
            expected.append(more[1] if more else "as judged")
    return came, expected


@table(("name", "script"), SCRIPTS.items(), ids=str)
def test_what_ran_is_as_judged_or_says_what_it_is(name: str, script: str) -> None:
    came, expected = play(script)

    assert came == expected, name


def test_a_client_that_only_reports_is_not_asked_why() -> None:
    assert play("run 1 Bash a", is_hosts=False)[0] == ["as judged"]
    assert play("ask 1 Bash a pass; run 2 Bash a; run 1 Bash b", is_hosts=False)[0] == ["as judged", "altered"]


def test_another_spelling_is_the_same_input() -> None:
    ledger, key = CallLedger(), CallKey("host", "session", "Bash", "1", True)
    long, nearly = "x" * 1000, "x" * (call_ledger.SHORT - 14)  # which a space makes too long to be kept as it is
    for before, after in (
        (f'{{"a":1,"b":"{nearly}"}}', f'{{"b": "{nearly}", "a": 1}}'),
        (f'{{"b": "{nearly}", "a": 1}}', f'{{"a":1,"b":"{nearly}"}}'),
        ('{"a":1,"b":"\\u00e9"}', '{"b": "é", "a": 1}'),
        (json.dumps({"a": long, "b": 1}), json.dumps({"b": 1, "a": long})),
    ):
        ledger.ask(key, "d", msgspec.Raw(before.encode()), decided("pass"))
        assert ledger.run(key, msgspec.Raw(after.encode())) is None
        mismatch = ledger.run(key, msgspec.Raw(after.replace("1", "true").encode()))
        assert mismatch is not None
        assert mismatch.cause == "altered"


def test_keys_that_the_host_lays_under_a_changed_input_are_no_change() -> None:
    ledger, key = CallLedger(), CallKey("host", "session", "Bash", "1", True)
    asked, changed = msgspec.Raw(b'{"command":"a","description":"d"}'), msgspec.Raw(b'{"command":"b"}')
    ledger.ask(key, "d", asked, decided("pass", patch={"tool_input": changed}))

    assert ledger.run(key, msgspec.Raw(b'{"command":"b"}')) is None
    assert ledger.run(key, msgspec.Raw(b'{"description":"d","command":"b"}')) is None


def test_a_host_that_does_not_say_what_ran_is_not_said_to_have_altered_it() -> None:
    ledger, key = CallLedger(), CallKey("host", "session", "Bash", "1", True)
    ledger.ask(key, "d", raw("a"), decided("pass"))

    assert ledger.run(key, None) is None


def test_the_words_are_there_only_where_there_is_such_a_call() -> None:
    ledger = CallLedger()
    play("ask 1 Bash a pass; run 1 Bash a; ask 2 Bash b pass; run 2 Bash b", ledger=ledger)
    (session,) = ledger.sessions.values()
    assert session.describe() == {"ran": 2, "asked": 2, "as_judged": 2}

    play("ask 3 Bash a deny; run 3 Bash a; run 4 Bash a", ledger=ledger)
    assert session.describe() == {"ran": 4, "asked": 3, "as_judged": 2, "overruled": 1, "unasked": 1}

    ledger.believe(CallKey("host", "session", "Bash", "4", True), None)
    assert session.describe() == {"ran": 4, "asked": 4, "as_judged": 3, "overruled": 1}


def test_only_so_many_calls_and_sessions_are_remembered() -> None:
    ledger = CallLedger()
    for number in range(call_ledger.MAX_CALLS + 10):
        ledger.ask(CallKey("host", str(number // 100), "Bash", str(number), True), "d", raw("a"), None)
    assert sum(len(session.calls) for session in ledger.sessions.values()) == call_ledger.MAX_CALLS

    for number in range(call_ledger.MAX_SESSIONS):
        ledger.run(CallKey("host", f"s{number}", "Bash", "1", True), raw("a"))
    assert len(ledger.sessions) == call_ledger.MAX_SESSIONS


def test_what_the_record_has_of_an_input_shows_nothing_of_it() -> None:
    for text in (b'"a secret"', b'["a secret"]', b'{"command":"a secret"}', b'"' + b"a secret" * 99 + b'"'):
        (found,) = set(call_ledger.digest_inputs(None, {"tool_input": msgspec.Raw(text)}))

        assert len(found) == 64
        assert found == call_ledger.digest_input(msgspec.Raw(text))
        assert b"a secret" not in bytes.fromhex(found)
