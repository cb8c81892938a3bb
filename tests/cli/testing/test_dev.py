"""hooklatch dev: a hook against payloads, on each save.

Slow: its hooks run in workers.
"""

from __future__ import annotations

import json
import re
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from hooklatch.cli.terminal.parser import CommandError
from hooklatch.cli.testing.payloads import read_payloads
from hooklatch.testing.events import list_recorded_events
from support.commands import Place, Started, new_place
from support.repository import ROOT
from support.survivors import nobody_survives
from support.tables import table

pytestmark = pytest.mark.slow

GUARD = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def guard(event):
    print("looking at", event.tool_input["command"])
    return deny("no {word}") if "{word}" in event.tool_input["command"] else None

@hook("deploy_requested")
def other(event): ...
"""
EVENT = '[[event]]\nname = "deploy_requested"\nmodel = "gate"\nverdicts = ["deny"]\n'
CRASH = GUARD.replace('print("looking', 'raise KeyError("oops"); print("looking')
PUSH = json.dumps({"tool_name": "Bash", "tool_input": {"command": "git push"}})


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    files = {
        "hooks.toml": f'{EVENT}[[source]]\npath = "guard.py"\n',
        "guard.py": GUARD.format(word="push"),
        "none.py": "x = 1\n",
        "crash.py": CRASH.format(word="push").partition('@hook("deploy')[0],
        "broken.py": "from hooklatch import hook\ndef f(:\n",
    }
    with nobody_survives(), new_place(files) as place:
        (place.folder / "push.json").write_text(PUSH)
        (place.folder / "cases.jsonl").write_text(
            json.dumps({"name": "a push", "event": "pre_tool_use", "payload": json.loads(PUSH), "expect": "pass"})
        )
        yield place


def lines_until(started: Started, text: str) -> list[str]:
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        lines.append(started.line())
        assert lines[-1], f"{text!r} was never shown, but: {lines}"
    return lines


def file_in(place: Place, name: str) -> str:
    return str(place.config.parent / name)


def test_recorded_payloads_are_fired_and_shown_with_what_was_printed(place: Place) -> None:
    done = place.run("dev", f"{place.config}:guard", "--once")

    assert (done.returncode, done.stderr) == (0, "")
    assert "hooks.toml: 2 hooks, loaded in" in done.stdout
    assert "pass   pre_tool_use Bash: ls | wc -l" in done.stdout
    assert "stdout   looking at ls | wc -l" in done.stdout
    assert "deny   pre_tool_use Bash: git push --force origin main  by guard" in done.stdout
    assert "reason   no push" in done.stdout
    assert "no hook matches: pre_tool_use Read" in done.stdout


def save(place: Place, text: str) -> None:
    """Save the guard as an editor does: at no moment is half of it there."""
    place.write({"guard.py~": text})
    (place.config.parent / "guard.py~").replace(place.config.parent / "guard.py")


def test_a_save_runs_it_again_and_ctrl_c_ends_it(place: Place) -> None:
    started = place.begin("dev", f"{file_in(place, 'hooks.toml')}:guard", "--payload", "push.json")

    first = lines_until(started, "waiting")
    save(place, GUARD.format(word="nothing"))
    second = lines_until(started, "waiting")
    save(place, "def f(:")
    third = lines_until(started, "waiting")
    save(place, GUARD.format(word="git"))
    fourth = lines_until(started, "waiting")
    started.signal(signal.SIGINT)
    code, _, complaints = started.end()

    assert "deny " in first[1]
    assert "pass " in second[1]
    assert "guard.py:1: SyntaxError" in third[0]
    assert "deny " in fourth[1]
    assert (code, complaints) == (130, "")


@pytest.mark.parametrize(
    ("words", "stdin", "code", "said"),
    [
        (["crash.py", "--payload", "push.json"], "", 1, "KeyError: 'oops' (crash.py:6)"),
        (["broken.py"], "", 1, "broken.py:2: SyntaxError"),
        (["crash.py", "--payload", "-"], PUSH, 1, "deny   pre_tool_use Bash: git push  (crash)"),
        (["hooks.toml:guard", "--cases", "cases.jsonl"], "", 1, "FAIL     verdict is deny, not pass"),
        (["hooks.toml:gone"], "", 66, "there is no hook 'gone'; there are: guard, guard:other"),
        (["gone.py"], "", 66, "gone.py is not there"),
        (["none.py"], "", 1, "it marks no function with @hook, so it guards nothing"),
        (["crash.py", "--payload", "-"], "[" * 100_000, 65, "neither JSON nor JSON lines: maximum recursion depth"),
        (["crash.py", "--payload", "-"], '{"tool_name": "a", "tool_name": "b"}', 65, "'tool_name' occurs twice"),
        (["hooks.toml", "--payload", "push.json"], "", 64, "say which one: --event"),
        (["hooks.toml", "--event", "stopp"], "", 64, "there is no event 'stopp'"),
        (["hooks.toml", "--host", "codex"], "", 64, "--host names the host of the payloads"),
    ],
)
def test_what_is_wrong_is_said(place: Place, words: list[str], stdin: str, code: int, said: str) -> None:
    place.write({"guard.py": GUARD.format(word="push")})

    done = place.run("dev", file_in(place, words[0]), *words[1:], "--once", stdin=stdin)

    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


@table(
    ("text", "said"),
    [("[1]", "a payload is a JSON object, not [1]"), ("{", "is neither JSON nor JSON lines"), ("{}\n1", "not 1")],
)
def test_what_is_no_payload_is_said(text: str, said: str) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        with pytest.raises(CommandError, match=re.escape(said)):
            read_payloads(file.name)


def test_the_payloads_are_those_that_were_recorded() -> None:
    known: list[Any] = []
    for path in (ROOT / "tests" / "data" / "claude-code-2.1.330").glob("*.jsonl"):
        known += [json.loads(line) for line in path.read_text().splitlines()]

    assert [one.payload for one in list_recorded_events() if not one.made_up and one.payload not in known] == []
    assert sum(one.made_up for one in list_recorded_events()) == 2
