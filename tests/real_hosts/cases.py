"""The tests that every real program has to pass; each program's file makes a class of them."""

from __future__ import annotations

import os
import threading
from typing import ClassVar

import pytest

from real_hosts.guarded import guarded, kill_whole
from real_hosts.hosts.host import Host
from real_hosts.rows import BLOCKED, RAN, REWRITTEN, TOLD, Result
from real_hosts.theatre import Stage
from support.commands import serving

__all__ = ["Cases"]

SERVE = "hooklatch serve"  # what a refusal without a daemon tells a person to do
SHORT = 20  # seconds in which a session must end that nobody may hold: far less than its watchers hang


class Cases:
    """What is true of every program that hooklatch is installed into.

    Slow, all of them: each starts a program of some hundred megabytes, and a daemon.
    """

    host: ClassVar[Host]

    def test_a_tool_that_nobody_refuses_runs(self, with_hooklatch: dict[str, Result]) -> None:
        assert with_hooklatch["pass"].word == RAN

    def test_a_refusal_blocks_and_the_model_is_told_why(self, with_hooklatch: dict[str, Result]) -> None:
        assert with_hooklatch["deny"].word == TOLD, with_hooklatch["deny"].told

    def test_a_question_that_nobody_can_answer_blocks(self, with_hooklatch: dict[str, Result]) -> None:
        assert with_hooklatch["ask"].word in (BLOCKED, TOLD), with_hooklatch["ask"].told

    def test_an_input_is_rewritten_where_the_program_can_and_blocked_elsewhere(
        self, with_hooklatch: dict[str, Result]
    ) -> None:
        expected = (REWRITTEN,) if self.host.rewrites else (BLOCKED, TOLD)

        assert with_hooklatch["rewrite"].word in expected, with_hooklatch["rewrite"].told

    @pytest.mark.parametrize("row", ["raise", "exit_2", "killed", "hang", "rubbish", "half", "noise"])
    def test_a_guard_that_fails_blocks_and_the_model_is_told_which(
        self, with_hooklatch: dict[str, Result], row: str
    ) -> None:
        assert with_hooklatch[row].word == TOLD, with_hooklatch[row].told

    def test_calls_made_at_once_each_get_their_own_verdict(self, stage: Stage) -> None:
        with guarded(self.host, stage) as it, serving(it.ground):
            outcome = it.play(it.turn("one_of_two", "other_of_two", "three"))

        assert "deny_guard" in outcome.told_of("main", 0, 0)
        assert "deny_guard" not in outcome.told_of("main", 0, 1) + outcome.told_of("main", 0, 2)
        assert it.files == {"other_of_two", "three"}

    def test_the_calls_of_a_subagent_are_guarded(self, stage: Stage) -> None:
        with guarded(self.host, stage) as it, serving(it.ground):
            start, allowed = self.host.subagent("sub"), it.place.folder / "subagent_allowed.ran"
            if start is None:
                pytest.skip(f"{self.host.program.title} starts no sub-agent here")
            wait = self.host.shell(f"for each in $(seq 200); do test -e {allowed} && break; sleep 0.1; done")
            outcome = it.play([start], [wait], sub=[it.turn("subagent"), it.turn("subagent_allowed")])

        assert "deny_guard" in outcome.told_of("sub", 0)
        assert it.files == {"subagent_allowed"}

    def test_without_a_daemon_every_tool_is_blocked(self, stage: Stage) -> None:
        with guarded(self.host, stage) as it:
            outcome = it.play(it.turn("without_a_daemon"))

        assert it.files == set()
        assert SERVE in outcome.everything

    def test_from_the_moment_that_the_daemon_dies_every_tool_is_blocked(self, stage: Stage) -> None:
        with guarded(self.host, stage) as it, serving(it.ground) as daemon:
            busy = it.ground.config.with_name("busy")
            os.mkfifo(busy)

            def kill_it_when_it_is_busy() -> None:
                busy.open().close()
                kill_whole(daemon.pid)

            killer = threading.Thread(target=kill_it_when_it_is_busy, daemon=True)
            killer.start()
            outcome = it.play(it.turn("pass"), it.turn("daemon_dies"), it.turn("afterwards"))

        assert it.files == {"pass"}
        assert SERVE in outcome.told_of("main", 1)
        assert SERVE in outcome.told_of("main", 2)

    @pytest.mark.xfail(reason="the entry still waits for events that nobody waits for", strict=True)
    def test_watchers_that_hang_hold_neither_a_tool_nor_the_session(self, stage: Stage) -> None:
        with guarded(self.host, stage, "watchers.py") as it, serving(it.ground):
            outcome = it.play(it.turn("pass"), patience=SHORT)
            seen = {path.stem for path in it.ground.config.parent.glob("*.seen")}

        assert outcome.exit_code is not None, f"it was held: {outcome.stderr}"
        assert it.files == {"pass"}
        assert seen == self.host.watched
        assert outcome.left == []
