"""The deadline of a command, and what it leaves behind: nothing that delays, nothing that remains."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.runtime.shell_driven import Driven, ends, is_alive

BACKGROUND = "sleep 100 & echo $! >&2"  # the shell's child holds all three pipes


def pids(text: bytes) -> list[int]:
    return [int(word) for word in text.split()]


@pytest.mark.parametrize(
    ("command", "event"),
    [
        pytest.param("sleep 100", "pre_tool_use", id="RX-15-gate"),
        pytest.param("sleep 100", "stop", id="RX-15-notification"),
        pytest.param("sleep 100; exit 0", "pre_tool_use", id="RG-26-a-shell-that-waits-for-a-child"),
        pytest.param("trap '' TERM; sleep 100; sleep 100", "pre_tool_use", id="SIGTERM-ignored"),
        pytest.param("kill -STOP $$", "pre_tool_use", id="stopped"),
        pytest.param(["sleep", "100"], "pre_tool_use", id="arguments"),
        pytest.param("exec >&- 2>&- <&-; sleep 100", "pre_tool_use", id="all-pipes-closed"),
    ],
)
def test_a_command_that_hangs_is_a_timeout(shared: Driven, command: str | list[str], event: str) -> None:
    reply = shared.run(command, event, timeout=0.1)

    assert (reply.cause, reply.exit_code) == ("timeout", None)
    assert 0.09 <= reply.seconds < 50, "as long as its limit, not as the command"


@pytest.mark.slow
def test_the_timeout_is_told_before_the_daemon_would_kill_the_worker(own: Driven) -> None:
    """The margin has its full 50 ms from half a second on."""
    replies = [own.run("sleep 100", remaining=0.6)]
    while replies[-1].seconds >= 0.6 and len(replies) < 10:  # a busy machine takes longer than the margin, now and then
        replies.append(own.run("sleep 100", remaining=0.6))

    assert {reply.cause for reply in replies} == {"timeout"}
    assert 0.55 <= replies[-1].seconds < 0.6


@pytest.mark.parametrize(("timeout", "remaining"), [(0.1, 10.0), (10.0, 0.1), (None, 0.1)])
def test_the_shorter_of_its_own_limit_and_what_remains_counts(
    shared: Driven, timeout: float | None, remaining: float
) -> None:
    reply = shared.run("sleep 100", timeout=timeout, remaining=remaining)

    assert reply.cause == "timeout"
    assert reply.seconds < 5, "a tenth of a second, not ten"


def test_without_any_time_left_nothing_is_started(own: Driven, tmp_path: Path) -> None:
    reply = own.run("touch started", remaining=0.0)

    assert reply.cause == "timeout"
    assert not (tmp_path / "started").exists()


def test_what_it_said_before_is_kept(shared: Driven) -> None:
    reply = shared.run("echo looking; echo slow >&2; sleep 100", timeout=0.2)

    assert (reply.cause, reply.stdout, reply.stderr) == ("timeout", b"looking\n", b"slow\n")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(f"{BACKGROUND}; exit 0", id="exit-0"),
        pytest.param(f"{BACKGROUND}; exit 2", id="exit-2"),
        pytest.param("setsid sleep 100 & echo $! >&2", id="a-session-of-its-own"),
        pytest.param("(yes & echo $! >&2) & sleep 0.05", id="it-keeps-writing"),
    ],
)
def test_a_grandchild_that_holds_the_pipes_delays_nothing(own: Driven, command: str) -> None:
    reply = own.run(command, timeout=20)

    assert reply.word in ("pass", "deny")
    assert reply.seconds < 2


def test_a_grandchild_lives_on_after_a_good_answer_and_dies_with_its_worker(own: Driven) -> None:
    (pid,) = pids(own.run(BACKGROUND).stderr)
    assert is_alive(pid)

    own.close()

    assert ends(pid)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("echo $$ >&2; sleep 100", id="the-command"),
        pytest.param("trap '' TERM; echo $$ >&2; sleep 100 & echo $! >&2; wait; wait", id="SIGTERM-ignored"),
        pytest.param(f"{BACKGROUND}; wait", id="its-background-child"),
        pytest.param("setsid sh -c 'trap \"\" TERM; sleep 100' & echo $! >&2; wait", id="below-it-in-another-session"),
        pytest.param("timeout 50 sh -c 'echo $$ >&2; sleep 100'", id="under-timeout-1-in-another-group"),
        pytest.param("(sh -c 'trap \"\" TERM; echo $$ >&2; sleep 100' &); sleep 100", id="an-orphan-of-its-group"),
        pytest.param("echo $$ >&2; kill -STOP $$", id="stopped"),
    ],
)
def test_after_its_deadline_the_whole_tree_ends_while_the_worker_goes_on(own: Driven, command: str) -> None:
    """Half a second between SIGTERM and SIGKILL is the behaviour under test."""
    reply = own.run(command, timeout=0.3)
    assert reply.cause == "timeout"

    assert own.run("exit 2").word == "deny"  # at once: the helper is still waiting
    assert [pid for pid in pids(reply.stderr) if not ends(pid)] == []


@pytest.mark.slow
def test_sigterm_comes_first_so_that_a_command_can_clean_up(own: Driven, tmp_path: Path) -> None:
    """A command that hangs is left to its deadline."""
    note = tmp_path / "note"
    reply = own.run(f"trap 'echo cleaned >> {note}; exit' TERM; echo $$ >&2; sleep 100 & wait", timeout=0.3)

    assert ends(*pids(reply.stderr))
    assert note.read_text() == "cleaned\n"


@pytest.mark.slow
def test_a_command_that_was_told_to_stop_keeps_its_id_until_the_helper_is_done(own: Driven) -> None:
    """The helper waits for half a second."""
    (leader,) = pids(own.run("echo $$ >&2; exec sleep 100", timeout=0.2).stderr)
    assert ends(leader)
    children = own.run("true").children
    assert leader in children

    (helper,) = [pid for pid in children if pid != leader]
    assert ends(helper)

    assert own.run("true").children == []


@pytest.mark.slow
def test_nothing_is_left_after_many_calls(own: Driven) -> None:
    """Fifty processes are started, and five deadlines waited for."""
    before = own.run("true").descriptors

    for number in range(50):
        own.run(["exit 0", "exit 2", "kill -9 $$", "sleep 0.01 & exit 0", "no-such-command"][number % 5])
        own.run(["no-such-program"])
    for _ in range(5):
        own.run("sleep 100", timeout=0.05)
    own.run("sleep 0.6")  # longer than the helpers wait

    reply = own.run("true")
    assert (reply.children, reply.descriptors) == ([], before)


def test_a_failed_start_leaves_no_descriptor(own: Driven) -> None:
    before = own.run("true").descriptors

    for _ in range(20):
        own.run(["no-such-program"])

    assert own.run("true").descriptors == before
