"""fire: verdicts, failures and usage errors, each with its exit code.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.commands import PROGRAM, Daemon, Place, payload

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("tool", "code", "verdict", "cause"),
    [
        ("Read", 0, "pass", None),
        ("Bash", 2, "deny", "policy"),
        ("Halt", 2, "halt", "policy"),
        ("Ask", 3, "ask", "policy"),
        ("Crash", 4, "deny", "crash"),
    ],
)
def test_the_exit_code_is_the_verdict(shared: Daemon, tool: str, code: int, verdict: str, cause: str | None) -> None:
    done = shared.place.fire_tool(tool, command="rm x")
    decision = shared.place.json(
        "fire", "pre_tool_use", "--payload", "-", stdin=payload(tool, command="rm x"), code=code
    )

    assert done.returncode == code
    assert done.stdout.splitlines()[0] == f"verdict  {verdict}"
    assert (decision["verdict"], decision["cause"]) == (verdict, cause)


def test_a_refusal_names_hook_reason_and_cause(shared: Daemon) -> None:
    done = shared.place.fire_tool("Bash", command="rm x")

    assert "reason   no rm here ☃" in done.stdout
    assert "hook     global/guards:judge" in done.stdout
    assert "cause    policy" in done.stdout


def test_an_event_may_be_in_another_systems_words(shared: Daemon) -> None:
    words = ("fire", "PreToolUse", "--dialect", "reasonix", "--payload", "-")
    document = '{"toolName": "Bash", "toolArgs": {"command": "rm x"}}'

    done = shared.place.run(*words, stdin=document)
    unknown = shared.place.run("fire", "PreToolUse", "--dialect", "klingon", stdin="")

    assert done.returncode == 2
    assert '"exitCode":2' in done.stdout
    assert (unknown.returncode, "there are ethos" in unknown.stderr) == (64, True)


def test_what_a_hook_says_cannot_command_the_terminal(shared: Daemon) -> None:
    assert "\x1b" not in shared.place.fire_tool("Bash", command="rm x").stdout


def test_an_ascii_terminal_is_no_reason_to_crash(shared: Daemon) -> None:
    words = ("fire", "pre_tool_use", "--payload", "-")
    ascii_only = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}

    done = shared.place.run(*words, stdin=payload("Bash", command="rm x"), **ascii_only)

    assert done.returncode == 2
    assert "no rm here \\u2603" in done.stdout


def test_an_unreadable_standard_output_does_not_change_the_exit_code(shared: Daemon) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "fire", "pre_tool_use", "--payload", "-"], input=payload("Bash", command="rm x"), text=True,
            stdout=full, stderr=subprocess.PIPE, env=shared.place.environment, check=False,
        )  # fmt: skip

    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_a_payload_is_a_file_of_any_layout(shared: Daemon) -> None:
    file = shared.place.folder / "event.json"
    file.write_text('{\n "tool_name": "Bash",\n\n "tool_input": {"command": "rm x"}\n}\n')

    assert shared.place.run("fire", "pre_tool_use", "--payload", str(file)).returncode == 2


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"a": nan}', '"\ud800"'.encode(errors="replace").decode()])
def test_a_payload_that_is_no_object_is_bad_data(place: Place, text: str) -> None:
    done = place.run("fire", "stop", "--payload", "-", stdin=text)

    assert done.returncode == 65
    assert done.stderr.startswith("hooklatch: standard input: ")


def test_what_is_piped_in_is_read_without_being_asked_for(shared: Daemon) -> None:
    done = shared.place.run("fire", "pre_tool_use", stdin=payload("Bash", command="rm x"))
    bad = shared.place.run("fire", "pre_tool_use", stdin="rm x")

    assert (done.returncode, "no rm here" in done.stdout) == (2, True)
    assert (bad.returncode, "standard input: not JSON" in bad.stderr) == (65, True)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ('{"tool_name": "Bash"', "(line 1, column 21); it ends in the middle"),
        ("{'tool_name': 'Bash'}", "(line 1, column 2); JSON has double quotes only"),
        ('{"n": NaN}', "a number or a character in it is none that JSON has"),
        ("[]", "the payload is not a JSON object"),
    ],
)
def test_a_payload_that_is_no_json_is_said_where_and_why(place: Place, payload: str, said: str) -> None:
    done = place.run("fire", "stop", "--payload", payload)

    assert (done.returncode, said in done.stderr) == (65, True), done.stderr


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_and_a_gate_denies(shared: Daemon) -> None:
    reader, writer = os.pipe()
    try:
        gate, other = (
            subprocess.run(
                [*PROGRAM, "fire", event], stdin=reader, capture_output=True, text=True, timeout=60, check=False,
                env=shared.place.environment,
            )
            for event in ("pre_tool_use", "stop")
        )  # fmt: skip
    finally:
        os.close(reader)
        os.close(writer)

    assert (gate.returncode, "cause    payload" in gate.stdout) == (4, True)
    assert other.returncode == 0
    assert all("it was not read" in done.stderr for done in (gate, other))


def test_a_missing_payload_file_is_named(place: Place) -> None:
    done = place.run("fire", "stop", "--payload", "nowhere.json")

    assert done.returncode == 66
    assert "nowhere.json cannot be read: No such file" in done.stderr


def test_a_payload_over_the_limit_is_refused_by_the_daemon(shared: Daemon) -> None:
    decision = shared.place.json(
        "fire", "pre_tool_use", "--payload", "-", stdin=payload("Bash", command="x" * (9 * 2**20)), code=4
    )

    assert decision["cause"] == "payload"


def test_an_unknown_event_is_misuse_and_the_nearest_is_named(shared: Daemon) -> None:
    done = shared.place.run("fire", "pre_tool_us")

    assert done.returncode == 64
    assert "did you mean 'pre_tool_use'?" in done.stderr


def test_session_and_folder_are_told_to_hooks_and_no_session_is_opened(shared: Daemon) -> None:
    shared.place.write(
        {
            "hooks.d/tell.py": "from hooklatch import deny, hook\n"
            '@hook("pre_compact")\ndef tell(event):\n    return deny(f"{event.session_id} in {event.cwd}")\n'
        }
    )
    shared.place.json("reload")

    decision = shared.place.json("fire", "pre_compact", "--session", "s-1", "--cwd", "/srv", "--timeout", "9", code=2)
    here = shared.place.json("fire", "pre_compact", code=2)
    native = ("fire", "PreCompact", "--dialect", "reasonix")
    stated = shared.place.json(*native, stdin='{"cwd": "/srv", "sessionId": "s-2"}', code=2)
    silent = shared.place.json(*native, stdin="{}", code=2)
    both = shared.place.json(*native, "--cwd", "/", stdin='{"cwd": "/srv"}', code=4)

    assert [one["reason"] for one in (decision, stated)] == ["s-1 in /srv", "s-2 in /srv"]
    assert [one["reason"] for one in (here, silent)] == [f"None in {os.path.realpath(shared.place.folder)}"] * 2
    assert both["cause"] == "payload"
    assert shared.place.json("sessions")["sessions"] == []


def test_without_a_daemon_a_gate_is_denied(place: Place) -> None:
    decision = place.json("fire", "pre_tool_use", code=4)

    assert (decision["verdict"], decision["cause"]) == ("deny", "no_daemon")
    assert "hooklatch serve" in decision["reason"]


def test_without_a_daemon_an_event_of_ones_own_may_be_a_gate(place: Place) -> None:
    assert place.run("fire", "deploy_requested").returncode == 4


def test_without_a_daemon_a_notification_passes_with_a_warning(place: Place) -> None:
    done = place.run("fire", "stop")

    assert done.returncode == 0
    assert "no daemon is reachable" in done.stderr
    assert done.stdout.startswith("verdict  pass")


def test_what_is_no_daemon_gets_no_trust(place: Place) -> None:
    place.runtime.mkdir()
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True);"
        "c, _ = s.accept(); c.recv(9999); c.sendall(b'220 smtp.example.org\\r\\n')"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(place.runtime / "agent.sock")], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    other.stdout.readline()

    decision = place.json("fire", "pre_tool_use", code=4)

    assert decision["cause"] == "protocol"
    other.communicate()
