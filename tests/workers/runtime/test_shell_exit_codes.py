"""How a command's end is interpreted: exit code, signal, and output."""

from __future__ import annotations

import pytest

from workers.runtime.shell_driven import Driven

GATE, NOTICE = "pre_tool_use", "post_tool_use"

# command, on a gate, on a gate when advisory, on a notification
TABLE = {
    "RX-11-exit-0": ("exit 0", "pass", "pass", "pass"),
    "RX-12-RX-13-exit-2": ("echo no >&2; exit 2", "deny", "deny", "warning"),
    "RX-14-exit-1": ("exit 1", "crash", "warning", "warning"),
    "exit-3": ("exit 3", "crash", "warning", "warning"),
    "exit-125": ("exit 125", "crash", "warning", "warning"),
    "exit-255": ("exit 255", "crash", "warning", "warning"),
    "RX-14-missing-command-127": ("no-such-command-anywhere", "crash", "crash", "crash"),
    "exit-127-by-itself": ("exit 127", "crash", "crash", "crash"),
    "not-executable-126": ("/etc/passwd", "crash", "crash", "crash"),
    "SIGKILL": ("kill -9 $$", "crash", "crash", "crash"),
    "SIGSEGV": ("kill -SEGV $$", "crash", "crash", "crash"),
    "SIGTERM": ("kill $$", "crash", "crash", "crash"),
    "a-guard-killed-below-the-shell": ("sh -c 'kill -9 $$'; exit $?", "crash", "crash", "crash"),
    "syntax-error-of-the-shell-is-a-2": ("if", "deny", "deny", "warning"),
    "the-readme-one-liner": ("test -f .git/MERGE_HEAD && exit 2", "crash", "warning", "warning"),
}


@pytest.mark.parametrize(("command", "on_gate", "advisory", "on_notice"), TABLE.values(), ids=TABLE.keys())
def test_an_end_means_what_the_table_says(
    shared: Driven, command: str, on_gate: str, advisory: str, on_notice: str
) -> None:
    assert shared.run(command, GATE).word == on_gate
    assert shared.run(command, GATE, exit_codes="advisory").word == advisory
    assert shared.run(command, NOTICE).word == on_notice


def test_an_exit_code_above_128_that_a_program_chose_itself_is_no_death(shared: Driven) -> None:
    assert shared.run(["/bin/sh", "-c", "exit 130"], exit_codes="advisory").word == "warning"


def test_a_hook_of_unknown_event_fails_closed(shared: Driven) -> None:
    reply = shared.run("exit 2", "deploy_requested", fails_closed=True)

    assert reply.word == "deny"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        pytest.param("echo ' why ' >&2; echo out; exit 2", "why", id="RX-25-standard-error-first"),
        pytest.param("echo because; exit 2", "because", id="RG-30-else-standard-output"),
        pytest.param("printf ' \\n' >&2; echo because; exit 2", "because", id="blank-standard-error-is-none"),
        pytest.param("exit 2", "refused with exit code 2 and without a reason", id="silence-still-has-a-text"),
        pytest.param("printf 'a\\r\\nb\\r\\n' >&2; exit 2", "a\nb", id="CRLF"),
        pytest.param("printf 'a\\0b' >&2; exit 2", "a\ufffdb", id="NUL"),
        pytest.param("printf '\\303\\244 \\377' >&2; exit 2", "ä \ufffd", id="not-UTF-8"),
    ],
)
def test_the_reason_is_what_the_command_said(shared: Driven, command: str, text: str) -> None:
    assert shared.run(command).text == text


def test_a_long_reason_keeps_its_beginning_and_its_end(shared: Driven) -> None:
    reply = shared.run("echo first >&2; seq 10000 >&2; echo last >&2; exit 2")

    assert reply.text.startswith("first\n")
    assert reply.text.endswith("\nlast")
    assert len(reply.text) < 5000


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("echo oops >&2; exit 7", ["exit code 7", "oops"], id="RG-29-exit-7"),
        pytest.param("kill -9 $$", ["signal 9 (SIGKILL)"], id="signal"),
        pytest.param("sh -c 'kill -9 $$'; exit $?", ["exit code 137", "SIGKILL"], id="signal-below"),
        pytest.param("no-such-command", ["exit code 127", "not found"], id="127"),
        pytest.param("/etc/passwd", ["exit code 126", "not executable"], id="126"),
    ],
)
def test_a_failure_says_how_the_command_ended(shared: Driven, command: str, words: list[str]) -> None:
    reply = shared.run(command)

    assert reply.cause == "crash"
    assert [word for word in words if word not in reply.message] == []


@pytest.mark.parametrize(("command", "exit_code"), [("exit 7", 7), ("kill -9 $$", -9), ("exit 0", 0)])
def test_the_outcome_carries_code_and_output(shared: Driven, command: str, exit_code: int) -> None:
    reply = shared.run(f"printf out; printf err >&2; {command}")

    assert (reply.exit_code, reply.stdout, reply.stderr, reply.truncated) == (exit_code, b"out", b"err", False)


# RX-16: what cannot be started is a failure of the gate too, and never a pass.
@pytest.mark.parametrize(
    "target",
    [
        pytest.param({"command": ["no-such-program"]}, id="no-such-program"),
        pytest.param({"command": ["/etc/passwd"]}, id="not-executable"),
        pytest.param({"command": ["/"]}, id="a-folder"),
        pytest.param({"command": "true", "cwd": "/no/such/folder"}, id="no-such-folder"),
        pytest.param({"command": "true", "cwd": "/etc/passwd"}, id="cwd-is-a-file"),
        pytest.param({"command": "true", "envelope": {"cwd": "relative"}}, id="cwd-is-relative"),
        pytest.param({"command": "true", "env": {"A=B": "c"}}, id="a-variable-with-a-bad-name"),
        pytest.param({"command": "true \0"}, id="NUL-in-the-command"),
        pytest.param({"command": ["true", "x" * 2**20]}, id="too-long-for-the-kernel"),
    ],
)
def test_a_command_that_cannot_be_started_failed(shared: Driven, target: dict[str, object]) -> None:
    reply = shared.run(**target)  # type: ignore[arg-type]

    assert (reply.cause, reply.exit_code) == ("crash", None)
    assert "could not be started" in reply.message


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({}, id="neither"),
        pytest.param({"command": "  "}, id="blank"),
        pytest.param({"argv": []}, id="no-arguments"),
        pytest.param({"argv": [""]}, id="no-program"),
        pytest.param({"command": "true", "argv": ["true"]}, id="both"),
        pytest.param({"command": 42}, id="a-number"),
        pytest.param({"argv": "true"}, id="a-string"),
        pytest.param({"command": "true", "payload": "yaml"}, id="unknown-payload"),
        pytest.param({"command": "true", "output": "xml"}, id="unknown-output"),
        pytest.param({"command": "true", "exit_codes": "none"}, id="unknown-exit-codes"),
        pytest.param({"command": "true", "env": {"A": 1}}, id="a-number-in-env"),
        pytest.param({"command": "true", "fails_closed": "no"}, id="fails-closed-is-text"),
    ],
)
def test_a_nonsensical_definition_is_never_a_pass(shared: Driven, config: dict[str, object]) -> None:
    reply = shared.run_definition(config)

    assert reply.cause == "load"


def test_a_definition_that_says_nothing_about_its_event_fails_closed(shared: Driven) -> None:
    reply = shared.run_definition({"command": "exit 3"})

    assert reply.cause == "crash"
