"""hooklatch asks: what waits for a person, answered by a command and at a real terminal.

Slow: the daemon and each command are processes of their own.
"""

from __future__ import annotations

import json
import math
import os
import pwd
import re
import shlex
import time
from collections.abc import Iterator
from typing import cast

import pytest

from hooklatch.cli.hooks.asks import SETTLE, AskPrompt
from hooklatch.client.admin import AdminConnection
from support.commands import CONFIG, GUARDS, PROGRAM, Daemon, Started, new_place, payload, serving
from support.described import check
from support.repository import ROOT
from support.terminals import terminal

pytestmark = pytest.mark.slow

NAME = pwd.getpwuid(os.getuid()).pw_name
AGAIN = '[ask]\nwait = "5m"\n'
LINES = re.findall(r"^hooklatch asks .*", (ROOT / "docs" / "guides" / "asks.md").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_place({"hooks.toml": AGAIN + CONFIG, "guards.py": GUARDS}) as place, serving(place) as daemon:
        yield daemon


@pytest.fixture
def followed(daemon: Daemon) -> Iterator[Started]:
    started = daemon.place.begin("asks", "--follow", "--json")
    yield started
    started.process.terminate()
    started.process.communicate()


def fire(daemon: Daemon, command: str) -> Started:
    place = daemon.place
    (place.folder / "payload.json").write_text(payload("Ask", command=command))
    return place.begin("fire", "pre_tool_use", "--payload", str(place.folder / "payload.json"), "--json")


def opened(followed: Started) -> str:
    while "opened" not in (message := json.loads(followed.line())):
        pass
    return str(message["opened"]["id"])


def decision(fired: Started) -> dict[str, object]:
    out, _ = fired.process.communicate()
    made: dict[str, object] = json.loads(out)
    return made


def test_what_waits_is_shown_and_answered_by_a_command(daemon: Daemon, followed: Started) -> None:
    place = daemon.place
    fired = fire(daemon, "rm \x1b[31m -r build")
    ask_id = opened(followed)

    listed = place.run("asks")
    check("asks", place.json("asks"))
    status = place.run("status").stdout
    line = next(line for line in LINES if "answer" in line).replace("3f2a-7", ask_id)
    answered = place.run(*shlex.split(line, comments=True)[1:])

    assert ask_id in listed.stdout
    assert "1 ask waits for a person; see: hooklatch asks" in status
    assert "global/guards:judge: may it?" in listed.stdout
    assert "if you deny, the agent is told to run: ls --[redacted]" in listed.stdout
    assert r'"rm \u001b[31m -r build"' in listed.stdout, "a payload commands the terminal"
    assert answered.returncode == 0, answered.stderr
    assert answered.stdout == f"{ask_id}: allowed by {NAME}: the branch is mine\n"
    made = decision(fired)
    assert (made["verdict"], fired.process.returncode) == ("allow", 0)
    again = place.run("asks", "answer", ask_id, "deny", "--reason", "too late")
    assert again.returncode == 66
    assert f"is over: allowed by {NAME}: the branch is mine" in again.stderr
    assert place.json("asks") == {"asks": []}
    assert "no ask waits" in place.run("asks").stdout
    (closed,) = [one for one in map(json.loads, place.run("log", "--kind", "ask", "--json").stdout.splitlines())
                 if (one["action"], one["decision_id"]) == ("closed", ask_id)]  # fmt: skip
    assert (closed["verdict"], closed["by"], closed["uid"]) == ("allow", NAME, os.getuid())


def test_at_a_terminal_each_line_answers_the_ask_that_is_shown(daemon: Daemon, followed: Started) -> None:
    place = daemon.place
    with terminal([*PROGRAM, "asks", "--follow"], environment=place.environment, folder=place.folder) as person:
        person.until("is the next one")
        first = fire(daemon, "make first")
        first_id = opened(followed)
        person.until(f"{first_id} [a/d/n/q]: ")
        second = fire(daemon, "make second")
        second_id = opened(followed)
        person.until(f"{second_id} waits too")
        person.type("what?\n")
        person.until("a REASON allows", after=len(person.seen))
        person.type("d\n")
        person.until("deny, because: ")
        person.type("not this one\n")
        person.until("make second", after=person.seen.index("deny, because: "))
        denied = decision(first)
        person.type("a this one\n")
        person.until("allowed", after=len(person.seen))
        allowed = decision(second)
        person.type("q\n")
        text = person.rest()

    assert (denied["verdict"], denied["cause"]) == ("deny", "policy")
    assert f"denied by {NAME}: not this one" in str(denied["reason"])
    assert (allowed["verdict"], person.process.returncode) == ("allow", 0)
    assert "make first" in text


def test_an_ask_whose_agent_is_gone_leaves_the_terminal(daemon: Daemon, followed: Started) -> None:
    place = daemon.place
    with terminal([*PROGRAM, "asks", "--follow"], environment=place.environment, folder=place.folder) as person:
        person.until("is the next one")
        fired = fire(daemon, "make third")
        ask_id = opened(followed)
        person.until(f"{ask_id} [a/d/n/q]: ")

        fired.process.kill()
        fired.process.communicate()

        person.until("its client left before a person answered")
        person.type("q\n")
        person.rest()

    assert person.process.returncode == 0


def test_a_line_is_about_no_ask_that_took_the_place_of_another_meanwhile(daemon: Daemon, followed: Started) -> None:
    place = daemon.place
    with terminal([*PROGRAM, "asks", "--follow"], environment=place.environment, folder=place.folder) as person:
        person.until("is the next one")
        first = fire(daemon, "make fifth")
        person.until(f"{opened(followed)} [a/d/n/q]: ")
        second = fire(daemon, "make sixth")
        second_id = opened(followed)
        person.until(f"{second_id} waits too")

        person.type("a it is mine")  # and while it is typed, the first one's agent leaves
        person.until("a it is mine", after=len(person.seen))
        first.process.kill()
        first.process.communicate()
        person.until(f"{second_id} [a/d/n/q]: ", after=len(person.seen))
        again = len(person.seen)
        person.type("\n")
        person.until(f"{second_id} [a/d/n/q]: ", after=again)
        time.sleep(SETTLE)
        person.type("d not this one\n")
        made = decision(second)
        person.type("q\n")
        person.rest()

    assert made["verdict"] == "deny"


def test_the_rest_of_a_line_that_was_being_typed_answers_no_other_ask(daemon: Daemon, followed: Started) -> None:
    place = daemon.place
    with terminal([*PROGRAM, "asks", "--follow"], environment=place.environment, folder=place.folder) as person:
        person.until("is the next one")
        first = fire(daemon, "make seventh")
        person.until(f"{opened(followed)} [a/d/n/q]: ")
        second = fire(daemon, "make eighth")
        second_id = opened(followed)
        person.until(f"{second_id} waits too")

        person.type("d this is ")  # and while it is typed, the first one's agent leaves
        person.until("d this is ", after=len(person.seen))
        first.process.kill()
        first.process.communicate()
        person.until(f"{second_id} [a/d/n/q]: ", after=len(person.seen))
        time.sleep(SETTLE)
        again = len(person.seen)
        person.type("a bad idea\n")
        person.until("nothing was answered", after=again)
        person.type("d not this one\n")
        made = decision(second)
        person.type("q\n")
        person.rest()

    assert made["verdict"] == "deny"


class Waiting:
    """A daemon with asks that wait, as a prompt sees it."""

    def __init__(self, *names: str) -> None:
        self.open = list(names)
        self.answered: list[tuple[object, object]] = []

    def ask(self, method: str, **params: object) -> dict[str, object]:
        if method == "asks":
            return {"asks": [self.one(name) for name in self.open]}
        self.answered.append((params["id"], params["verdict"]))
        return {"closed": {"id": params["id"], "verdict": params["verdict"], "by": "me", "reason": ""}}

    def one(self, name: str) -> dict[str, object]:
        at = "2026-01-31T12:00:00.000Z"
        return {
            "id": name, "at": at, "expires_at": at, "session_id": None, "host": None, "cwd": None, "event": "stop",
            "tool": None, "subject": "stop", "reason": f"why {name}", "questions": [{"hook": "h", "reason": "why"}],
            "questions_omitted": 0, "instead": None, "payload_digest": "d", "excerpt": {}, "excerpt_cut": None,
            "patch": None, "patch_cut": None,
        }  # fmt: skip

    def ended(self, name: str) -> dict[str, object]:
        self.open.remove(name)
        return {"closed": {"id": name, "verdict": "deny", "by": None, "reason": "nobody answered"}}


def prompt_of(waiting: Waiting) -> AskPrompt:
    prompt = AskPrompt(cast("AdminConnection", waiting), "me")
    prompt.refresh()
    return prompt


def test_no_line_answers_an_ask_that_has_just_taken_the_place_of_another(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklatch.cli.hooks.asks.SETTLE", math.inf)  # however long this machine pauses
    waiting = Waiting("one", "two")
    prompt = prompt_of(waiting)
    prompt.take_announcement(waiting.ended("one"))
    prompt.take_line("a the branch is mine")
    prompt.take_announcement(waiting.ended("two"))
    prompt.take_announcement({"opened": waiting.one("three")})  # nothing was shown meanwhile
    prompt.take_line("a the branch is mine")

    assert waiting.answered == []
    assert capsys.readouterr().out.count("nothing was answered") == 2


def test_the_rest_of_a_reason_answers_no_other_ask_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.cli.hooks.asks.SETTLE", 0.0)
    waiting = Waiting("one", "two")
    prompt = prompt_of(waiting)
    prompt.take_line("d")
    prompt.take_announcement(waiting.ended("one"))
    prompt.take_line("a risk that I do not take")
    assert waiting.answered == []
    prompt.take_line("a that is fine")

    assert waiting.answered == [("two", "allow")]


def test_an_ask_stays_shown_when_lines_were_missed() -> None:
    waiting = Waiting("one", "two")
    prompt = prompt_of(waiting)
    prompt.take_announcement({"missed": 7})
    prompt.take_line("d not this one")

    assert waiting.answered == [("one", "deny")]


def test_a_flood_of_asks_does_not_push_away_the_one_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = Waiting("one")
    prompt = prompt_of(waiting)
    for number in range(99):
        prompt.take_announcement({"opened": waiting.one(f"a-{number}")})
        prompt.print_prompt()

    text = capsys.readouterr().out
    assert (text.count("waits too"), text.count("\n") < 20) == (5, True)
    assert prompt.shown == "one"


def test_what_an_agent_calls_its_fields_commands_no_terminal(daemon: Daemon, followed: Started) -> None:
    place = daemon.place
    long = "a long name " * 80 + "."
    fields = {"command": "rm -r build", "\x1b[1A\x1b[2K": "x", long: "x", "empty": "", "last": "here"}
    (place.folder / "named.json").write_text(payload("Ask", **fields))
    fired = place.begin("fire", "pre_tool_use", "--payload", str(place.folder / "named.json"), "--json")
    ask_id = opened(followed)

    shown = place.run("asks").stdout
    place.run("asks", "answer", ask_id, "deny", "--reason", "no")
    decision(fired)

    assert "\x1b" not in shown
    assert r'"\u001b[1A\u001b[2K"' in shown
    assert f'  empty{" " * 19}""' in shown, "a field that is empty is left out"
    assert f"  last{' ' * 20}here" in shown
    assert "  " * 100 not in shown, "a long name moves the others out of sight"


def test_a_daemon_that_is_stopped_denies_what_waits() -> None:
    with new_place({"hooks.toml": AGAIN + CONFIG, "guards.py": GUARDS}) as place:
        with serving(place) as daemon:
            followed = place.begin("asks", "--follow", "--json")
            fired = fire(daemon, "make fourth")
            opened(followed)
            assert place.run("stop").returncode == 0
        made = decision(fired)
        followed.process.communicate()

    assert (made["verdict"], made["cause"], made["retryable"]) == ("deny", "draining", True)
    assert fired.process.returncode == 4
