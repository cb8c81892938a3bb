"""suspend and resume at the command line.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from hooklatch.cli.hooks import suspend
from support.commands import CONFIG, GUARDS, PROGRAM, Place, new_place, serving
from support.terminals import shown_at

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place({"hooks.toml": CONFIG, "guards.py": GUARDS}) as place, serving(place):
        yield place


def test_a_suspension_is_shown_loudly_and_ended(place: Place) -> None:
    refused = place.fire_tool("Bash", command="rm x")
    done = place.run("suspend", "guards:judge", "--for", "15m", "--reason", "mending it")
    passed = place.fire_tool("Bash", command="rm x")
    status = place.run("status")
    resumed = place.run("resume", "guards:judge")
    again = place.fire_tool("Bash", command="rm x")

    assert (refused.returncode, passed.returncode, again.returncode) == (2, 0, 2)
    assert done.stdout.startswith(
        "suspended global/guards:judge, for 15 min more: mending it (to end it: hooklatch resume"
    )
    assert status.returncode == 1
    assert "SUSPENDED   global/guards:judge, for " in status.stdout.splitlines()[1]
    assert resumed.stdout == "active again: guards:judge\n"


def test_all_hooks_are_suspended_by_saying_so(place: Place) -> None:
    done = place.json("suspend", "--all", "--for", "2h", "--reason", "restoring")
    shown = place.run("status").stdout
    resumed = place.json("resume", "--all")

    assert done["suspended"]["hook"] is None
    assert "SUSPENDED   ALL HOOKS: nothing is guarded, for " in shown
    assert resumed == {"was_suspended": True, "suspended": []}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("suspend", "guards:judge", "--for", "soon", "--reason", "x"), 64, "write it like 90s, 15m, 2h or 7d"),
        (("suspend", "guards:judge", "--for", "15m"), 64, "--reason"),
        (("suspend", "--for", "15m", "--reason", "x"), 64, "--all"),
        (
            ("suspend", "guards:judge", "--for", "25h", "--reason", "x"),
            64,
            "at most 24 h, and more than 0 s, not 25 h;",
        ),
        (("suspend", "all", "--reason", "x"), 64, "'all' is no hook; every hook is --all"),
        (("suspend", "guards:judge", "10m", "--reason", "x"), 64, "arguments: 10m; did you mean --for 10m?"),
        (("resume", "*"), 64, "'*' is no hook; every hook is --all"),
        (("suspend", "gua", "--reason", "x"), 66, "did you mean 'guards:judge'?"),
        (("suspend", "nobody", "--for", "15m", "--reason", "x"), 66, "there is no hook 'nobody'"),
        (("suspend", "guards:juge", "--for", "15m", "--reason", "x"), 66, "did you mean 'guards:judge'?"),
        (("resume", "guards:judge"), 66, "guards:judge was not suspended"),
    ],
)
def test_misuse_says_what_to_write(place: Place, words: tuple[str, ...], code: int, text: str) -> None:
    done = place.run(*words)

    assert done.returncode == code
    assert text in done.stderr


def test_a_hook_that_is_not_there_is_refused_before_the_reason_is_asked_for(place: Place) -> None:
    words = [*PROGRAM, "suspend", "guards:juge"]
    code, shown = shown_at(words, environment=place.environment, folder=place.folder)

    assert code == 66
    assert "there is no hook 'guards:juge'; did you mean 'guards:judge'?" in " ".join(shown.split())
    assert "why is it suspended" not in shown
    assert place.run("suspend", "guards:juge").returncode == 66  # where nobody can be asked


def test_what_the_daemon_does_not_suspend_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fleet's hooks fire on: who suspends all, and is still refused, must know why."""
    made = {"hook": None, "reason": "restoring", "seconds_left": 60}

    def answer(arguments: argparse.Namespace, method: str, **params: object) -> dict[str, object]:
        return {"suspended": made, "warnings": ["fleet/no-read: the fleet's policy does not allow suspending them"]}

    monkeypatch.setattr(suspend, "ask_administrator", answer)
    arguments = argparse.Namespace(id=None, all=True, seconds=60, reason="restoring", json=False)

    assert suspend.run_suspend(arguments) == 0
    assert "fleet/no-read: the fleet's policy does not allow suspending them" in capsys.readouterr().err
