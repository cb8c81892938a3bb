"""The tests that every real program has to pass; each program's file makes a class of them.

Slow, all of them: they start programs of some hundred megabytes, and daemons.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from hooklatch.shelltext.tools import NAMES
from hooklatch_worker.author.tools import KIND_OF
from real_hosts.guarded import guarded
from real_hosts.hosts.host import Host
from real_hosts.page import column_of, read_page
from real_hosts.rows import BLOCKED, ENDED, RAN, REWRITTEN, TOLD, Result, a_place, make, play
from real_hosts.theatre import Stage
from support.commands import serving

__all__ = ["Cases"]

FAILURES = ["raise", "exit_2", "killed", "hang", "rubbish", "half", "missing"]
NO_DAEMON = ["no_daemon", "daemon_dies", "afterwards"]
REFUSALS = ["deny", "noise", "one_of_two", "subagent"]
SHORT = 60  # seconds in which a session must end that nobody may hold: far less than its watchers hang

Results = dict[str, Result]


def names_in(offered: Any) -> Iterator[str]:
    """Yield the names of tools that a request offers a model, which the APIs put in lists of several forms."""
    for one in offered if isinstance(offered, list) else ():
        below = next((one[key] for key in ("tools", "functionDeclarations") if key in one), None)
        name = one.get("function", one).get("name")
        yield from names_in(below) if below is not None else [name] if isinstance(name, str) else []


class Cases:
    """What is true of every program that hooklatch is installed into."""

    host: ClassVar[Host]

    @pytest.mark.parametrize("row", ["pass", "other_of_two", "third"])
    def test_a_tool_that_nobody_refuses_runs(self, with_hooklatch: Results, row: str) -> None:
        assert with_hooklatch[row].word == RAN, with_hooklatch[row].told

    @pytest.mark.parametrize("row", REFUSALS)
    def test_a_refusal_blocks_and_the_model_is_told_why(self, with_hooklatch: Results, row: str) -> None:
        assert with_hooklatch[row].word == TOLD, with_hooklatch[row].told

    @pytest.mark.parametrize("row", FAILURES)
    def test_a_failure_blocks_and_the_model_is_told_what_failed(self, with_hooklatch: Results, row: str) -> None:
        assert with_hooklatch[row].word == TOLD, with_hooklatch[row].told

    @pytest.mark.parametrize("row", NO_DAEMON)
    def test_without_a_daemon_no_tool_runs(self, with_hooklatch: Results, row: str) -> None:
        assert with_hooklatch[row].word in (BLOCKED, TOLD, ENDED), with_hooklatch[row].told

    def test_a_question_that_nobody_can_answer_blocks(self, with_hooklatch: Results) -> None:
        assert with_hooklatch["ask"].word in (BLOCKED, TOLD, ENDED), with_hooklatch["ask"].told

    def test_an_input_is_rewritten_where_the_program_can_and_blocked_elsewhere(self, with_hooklatch: Results) -> None:
        expected = (REWRITTEN,) if self.host.rewrites else (BLOCKED, TOLD)

        assert with_hooklatch["rewrite"].word in expected, with_hooklatch["rewrite"].told

    def test_each_tool_that_it_offers_its_model_is_one_that_we_know(self, stage: Stage) -> None:
        with a_place(self.host, stage) as place:
            outcome = play(self.host, place, stage, {"main": [[make(self.host, place, "pass")]]})
        offered = {name for request in outcome.requests for name in names_in(request["body"].get("tools"))}

        assert offered & KIND_OF.keys(), "it offers at least a shell"
        assert offered <= NAMES

    def test_watchers_that_hang_hold_neither_a_tool_nor_the_session(self, stage: Stage) -> None:
        with guarded(self.host, stage, "watchers.py") as it, serving(it.ground):
            outcome = it.play(it.turn("pass"), patience=SHORT)
            seen = {path.stem for path in it.ground.config.parent.glob("*.seen")}
            ran = (it.place.folder / "pass.ran").exists()

        assert outcome.exit_code is not None, f"it was held: {outcome.stderr}"
        assert ran
        assert seen == self.host.watched
        assert outcome.left == []

    @pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc is not on the PATH")
    def test_the_entry_in_c_passes_and_refuses_as_the_script_does(self, stage: Stage) -> None:
        with guarded(self.host, stage, form="c") as it:
            with serving(it.ground):
                outcome = it.play(it.turn("pass"), it.turn("deny"), it.turn("raise"))
                words = [
                    it.result(outcome, row, turn, f"{row}_guard").word
                    for turn, row in enumerate(("pass", "deny", "raise"))
                ]
            it.play(it.turn("no_daemon"))
            ran_without = (it.place.folder / "no_daemon.ran").exists()

        assert words == [RAN, TOLD, TOLD]
        assert not ran_without

    def test_the_page_says_what_this_program_does(self, bare: Results, with_hooklatch: Results) -> None:
        title = self.host.program.title

        assert read_page().get(title) == column_of(bare, with_hooklatch), "python tests/real_hosts/page.py renews it"
