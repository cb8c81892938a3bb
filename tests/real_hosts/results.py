"""What the model reads of a tool's result where guards of results misbehave or their daemon dies.

Each row is a call that prints `row-ROW-secret`; what the model was told of it says whether that came through.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import ClassVar

import pytest

from real_hosts.guarded import DAEMON, Guarded, guarded, kill_whole
from real_hosts.hosts.host import Host
from real_hosts.model.conversation import Call, Turn
from real_hosts.theatre import Stage
from support.commands import serving

__all__ = ["ResultCases", "secret"]

FAILURES = ("raise", "killed", "hang", "rubbish")
MISSING = '[[hook]]\nid = "gone"\nevent = "tool_result"\nrun = "gone.py:guard"\n'


def secret(row: str) -> str:
    return f"row-{row}-secret"


class ResultCases:
    """What is true of every program that takes another result of a tool."""

    host: ClassVar[Host]

    def prints(self, row: str) -> Turn:
        """Return the call whose result is the row's; the command itself has not the word."""
        return [self.host.shell(f"printf 'row-%s-secret\\n' {row}")]

    def others(self, it: Guarded) -> Sequence[Call]:
        """Return calls of other tools that read `raise`'s result, each of another shape."""
        return ()

    def test_guards_change_and_withhold_what_the_model_reads(self, stage: Stage) -> None:
        rows = ("pass", "redact", "text", "deny", *FAILURES)
        with guarded(self.host, stage, "readers.py") as it, serving(it.ground):
            outcome = it.play(*map(self.prints, rows))
        told = {row: outcome.told_of("main", turn) for turn, row in enumerate(rows)}

        assert secret("pass") in told["pass"]
        assert "row-redact-redacted" in told["redact"]
        assert "another text" in told["text"]
        assert "withheld by deny_reader" in told["deny"]
        for row in rows[1:]:
            assert secret(row) not in told[row], row
            assert secret(row) not in str(outcome.requests[-1]["body"]), row
        for row in ("deny", *FAILURES):
            assert "withheld by hooklatch" in told[row], row
            assert f"{row}_reader" in told[row]

    def test_other_tools_results_are_withheld_in_their_own_shapes(self, stage: Stage) -> None:
        with guarded(self.host, stage, "readers.py") as it:
            (it.place.project / "read.txt").write_text(secret("raise"))
            calls = self.others(it)
            if not calls:
                pytest.skip("it has no other tools that run without a person")
            with serving(it.ground):
                outcome = it.play(*([call] for call in calls))

        for turn, call in enumerate(calls):
            told = outcome.told_of("main", turn)
            assert "withheld by hooklatch" in told, call
            assert secret("raise") not in told, call

    def test_a_missing_guard_withholds(self, stage: Stage) -> None:
        with guarded(self.host, stage) as it:
            it.ground.write({"hooks.toml": MISSING})
            with serving(it.ground):
                outcome = it.play(self.prints("missing"))

        assert "withheld by hooklatch" in outcome.told_of("main", 0)
        assert "gone" in outcome.told_of("main", 0)

    @pytest.mark.parametrize("form", ["python", "c"])
    def test_without_a_daemon_the_entry_withholds(self, stage: Stage, form: str) -> None:
        with guarded(self.host, stage, "readers.py", form=form) as it, serving(it.ground) as daemon:
            busy = it.ground.config.with_name("busy")
            os.mkfifo(busy)

            def kill_it_when_it_is_busy() -> None:
                busy.open().close()
                kill_whole(daemon.pid)

            threading.Thread(target=kill_it_when_it_is_busy, daemon=True).start()
            outcome = it.play(self.prints("pass"), self.prints("daemon_dies"))

        assert secret("pass") in outcome.told_of("main", 0)
        assert "withheld by hooklatch" in outcome.told_of("main", 1)
        assert DAEMON in outcome.told_of("main", 1)
        assert secret("daemon_dies") not in str(outcome.requests[-1]["body"])
