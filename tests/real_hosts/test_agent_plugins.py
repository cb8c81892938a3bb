"""The plugin of Claude Code and the extension of Gemini CLI in these programs: what /why and /guards put into a prompt.

Slow: each test starts programs of some hundred megabytes, and daemons.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from hooklatch.cli.terminal.agent_session import AWAY
from real_hosts.guarded import Guarded, guarded
from real_hosts.hosts.claude_code import ClaudeCode
from real_hosts.hosts.gemini import Gemini
from real_hosts.hosts.host import Host
from real_hosts.model.conversation import Turn, opening
from real_hosts.screens import SCENES, play_steps, why_there_is_no_terminal
from real_hosts.theatre import Outcome, Stage
from support.commands import serving

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]

WORD = "a word of a file that nobody asked for"
RUNS = "!`touch {0}` !{{touch {0}}} $(touch {0}) `touch {0}` ; touch {0}"  # where a shell or a template would run it


def strings(value: Any) -> Iterator[str]:
    """Yield each text in JSON."""
    match value:
        case str():
            yield value
        case dict() | list():
            for item in cast("list[object]", [*value.values()] if isinstance(value, dict) else value):
                yield from strings(item)
        case _:
            return


def prompt_of(outcome: Outcome) -> str:
    """Return all that the model was given with the last prompt."""
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    body = outcome.requests[-1]["body"]
    return "\n".join(strings(body.get("messages") or body.get("contents")))


class Plugged:
    """A program with the plugin that hooklatch has written."""

    def __init__(self, it: Guarded, stage: Stage, *options: str) -> None:
        self.it, self.stage = it, stage
        self.folder = it.place.folder / "plugin"
        self.session = str(uuid.uuid4())
        done = it.command("install", it.host.name, "--plugin", str(self.folder), *options)
        assert done.exit_code == 0, done.stdout + done.stderr

    def start(self, prompt: str, *words: str, turns: Sequence[Turn] = ()) -> Outcome:
        argv, environment = self.it.host.start(self.it.place, prompt)
        return self.run([*argv, *words], environment, turns)

    def run(self, argv: Sequence[str], environment: dict[str, str], turns: Sequence[Turn] = ()) -> Outcome:
        place = self.it.place
        outcome = self.stage.play(argv, folder=place.folder, cwd=place.project, env=environment, plays={"main": turns})
        assert not outcome.errors, outcome.errors
        return outcome

    def take(self) -> None:
        """Have the program take the plugin as `install --plugin` says."""
        _, environment = self.it.host.start(self.it.place, "")
        program = self.it.host.program.argv
        steps = (
            [["extensions", "install", str(self.folder), "--consent"]]
            if self.it.host.name == "gemini"
            else [["plugin", "marketplace", "add", str(self.folder)], ["plugin", "install", "hooklatch@hooklatch"]]
        )
        for step in steps:
            done = self.run([*program, *step], environment)
            assert done.exit_code == 0, done.stdout + done.stderr

    def first(self, turns: Sequence[Turn]) -> Outcome:
        words = ["--session-id", self.session] if self.it.host.name == "claude-code" else []
        return self.start(opening("main"), *words, turns=turns)

    def ask(self, command: str) -> str:
        """Type a command in the same session; return the prompt."""
        if self.it.host.name == "gemini":
            return prompt_of(self.start(f"/{command}", "--resume", "latest"))
        words = ["--resume", self.session, "--plugin-dir", str(self.folder)]
        return prompt_of(self.start(f"/hooklatch:{command}", *words))


class Plugins:
    host: Host
    at = "@"  # how an @ is written, whose file the program might read
    judged = 1  # calls when /guards is asked: where a command of a text is judged, those of /why and /guards too

    def test_why_and_guards_say_what_was_refused_and_run_nothing_of_it(self, stage: Stage) -> None:
        with guarded(self.host, stage) as it, serving(it.ground):
            agent = Plugged(it, stage)
            secret, pwned = it.place.folder / "s", it.place.folder / "p"
            secret.write_text(WORD)
            hostile = f"touch deny.ran # @{secret} {RUNS.format(pwned)}\n!`touch {pwned}`\n```!\ntouch {pwned}\n```"
            if self.host.name == "gemini":
                agent.take()
            told = agent.first([[self.host.shell(hostile)]]).told_of("main", 0)
            why, guards = agent.ask("why"), agent.ask("guards")
            injected = agent.ask(f"why {RUNS.format(pwned)}")
            is_pwned = pwned.exists()

        assert "refused by deny_guard" in told
        for prompt in (why, injected):
            shown = " ".join(prompt.split())  # Gemini CLI starts a command at a terminal of its own, where lines wrap
            assert f"refused touch deny.ran # {self.at}{secret} !`touch {pwned}`" in shown, why
            assert "guard global/guards:deny_guard reason refused by deny_guard" in shown
            assert WORD not in prompt
        assert "11 guards in session" in guards
        assert re.search(rf"guards:deny_guard +{self.judged} +1\b", guards), guards
        assert not is_pwned

    def test_its_hooks_refuse_as_those_of_the_settings_do_and_without_a_daemon_it_is_a_line(self, stage: Stage) -> None:
        with guarded(self.host, stage, is_installed=False) as it:
            agent = Plugged(it, stage)
            if self.host.name == "gemini":
                agent.take()
            agent.first([])
            away = agent.ask("why")
        with guarded(self.host, stage, is_installed=False) as it, serving(it.ground):
            agent = Plugged(it, stage, "--hooks", "--form", "python", "--program", str(self.host.program.path))
            agent.take()
            outcome = agent.first([it.turn("deny"), it.turn("pass")])
            ran = [(it.place.folder / f"{row}.ran").exists() for row in ("deny", "pass")]

        assert AWAY in away
        assert "refused by deny_guard" in outcome.told_of("main", 0)
        assert ran == [False, True]


class TestClaudeCode(Plugins):
    host = ClaudeCode()
    at = r"\x40"
    judged = 3

    @pytest.mark.skipif(bool(why_there_is_no_terminal()), reason=why_there_is_no_terminal())
    def test_its_status_line_has_the_guards_and_what_was_refused(self, stage: Stage) -> None:
        steps = [{"wait": "11 guards, 0 refused"}, {"type": opening("main")}, {"wait": "11 guards, 1 refused"}]
        with guarded(self.host, stage, "guards.py", "--status-line") as it, serving(it.ground):
            screen = play_steps(SCENES[self.host.name], stage, it.place, steps, [it.turn("deny")]).stdout

        assert "hooklatch: 11 guards, 1 refused" in screen

    @pytest.mark.skipif(bool(why_there_is_no_terminal()), reason=why_there_is_no_terminal())
    def test_a_plugin_cannot_bring_a_status_line(self, stage: Stage) -> None:
        with guarded(self.host, stage, is_installed=False) as it:
            agent = Plugged(it, stage)
            settings = {"statusLine": {"type": "command", "command": "echo of a plugin"}}
            (agent.folder / "settings.json").write_text(json.dumps(settings))
            agent.take()
            steps = [{"wait": "for shortcuts"}, {"type": opening("main")}, {"wait": "All done."}]
            screen = play_steps(SCENES[self.host.name], stage, it.place, steps, []).stdout

        assert "of a plugin" not in screen


class TestGemini(Plugins):
    host = Gemini()
