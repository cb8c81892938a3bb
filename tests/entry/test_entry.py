"""The entry in each of its forms: with a daemon that answers, one that misbehaves, and none."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
from collections.abc import Callable

import pytest

from clients.scripts import entry_lines
from hooklatch.entry.commands import Kind
from hooklatch.entry.refusals import MAX_FRAME, MODEL, PERSON, make_reason
from support.entries import DOCUMENT, FORMS, Daemon, Talk, command, result, run, start
from support.tables import table

Serve = Callable[[bytes | Talk], Daemon]
SILENT = (0, b"", b"")
DENY = (
    '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"é"}}\n'
)

pytestmark = pytest.mark.parametrize("form", FORMS)


def refused(cause: str, detail: str = "") -> tuple[int, bytes, bytes]:
    return 2, b"", make_reason(cause, detail.encode(), MODEL) + b"\n"


# -- whole answers -------------------------------------------------------------------------------------------------

ANSWERS: dict[str, tuple[bytes, tuple[int, bytes, bytes]]] = {
    "silence": (result(), SILENT),
    "a document": (result(0, DENY), (0, DENY.encode(), b"")),
    "a refusal by text": (result(2, "", "no\n"), (2, b"", b"no\n")),
    "text for a person": (result(0, "", "note\n"), (0, b"", b"note\n")),
    "every escape": (
        result()[:-4] + rb'\"\\\/\b\f\n\r\t\u00e9\u0041\ud83d\ude00\u0000"}}' + b"\n",
        (0, b"", '"\\/\b\f\n\r\té\x41😀\0'.encode()),
    ),
    "raw UTF-8": (result(0, "", "é €😀"), (0, b"", "é €😀".encode())),
    "two lines": (result(2, "", "first") + result(), (2, b"", b"first")),
    # A refusal with a document, or without a text, is none for some hosts.
    "a refusal with a document": (result(2, "{}", "no"), (2, b"", b"no")),
    "a refusal without a text": (result(2, "", " \n"), (2, b"", b"Not run: hooklatch refused it\n")),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_whole_answer_is_passed_on_byte_for_byte(form: str, serve: Serve, folder: str, name: str) -> None:
    line, expected = ANSWERS[name]
    serve(line)

    assert run(form, folder) == expected


def test_the_daemon_gets_the_document_and_what_the_host_says(form: str, serve: Serve, folder: str) -> None:
    daemon = serve(result())
    document = '{"é":"\\u0000 \\" \\\\ 😀"}\r\n\t\x01\x7f,"document":'.encode()
    environ = {"CLAUDE_PROJECT_DIR": "/ho\\me/é", "OTHER": "x", "GEMINI_PROJECT_DIR": '/a"b'}

    run(form, folder, document, host="codex", event="PreToolUse", wait=20.5, environ=environ)

    request = daemon.request()
    params = request.pop("params")
    assert request == {"jsonrpc": "2.0", "id": 1, "method": "host"}
    assert 0 < params.pop("budget") <= 20.5
    assert params == {
        "host": "codex", "event": "PreToolUse", "document": document.decode().replace("\n", "\r"),
        "environ": {"CLAUDE_PROJECT_DIR": "/ho\\me/é", "GEMINI_PROJECT_DIR": '/a"b'},
    }  # fmt: skip


def test_large_events_and_large_answers_go_through(form: str, serve: Serve, folder: str) -> None:
    text = "é\n" * 2**20
    daemon = serve(result(0, json.dumps({"a": text}, ensure_ascii=False)))

    code, stdout, _ = run(form, folder, text.encode())

    assert (code, json.loads(stdout)) == (0, {"a": text})
    assert daemon.request()["params"]["document"] == text.replace("\n", "\r")


def test_a_document_that_is_json_makes_a_line_of_json_with_the_same_value(form: str, serve: Serve, folder: str) -> None:
    daemon, document = serve(result()), {"tool_input": {"command": 'a\nb\r\t"\\', "é": [1.0, None]}}

    run(form, folder, json.dumps(document, indent=2).replace("\n", "\r\n").encode())

    assert json.loads(daemon.lines[0])["params"]["document"] == document


def test_a_line_end_within_a_string_stays_a_fault_of_the_document(form: str, serve: Serve, folder: str) -> None:
    daemon = serve(result())

    run(form, folder, b'{"a":"b\nc"}')

    with pytest.raises(ValueError, match="control character"):
        json.loads(daemon.request()["params"]["document"])


# -- answers that are none -----------------------------------------------------------------------------------------

RUBBISH = "rubbish"
HUNG_UP = "hung_up"
BROKEN: dict[str, tuple[bytes, str, str]] = {
    "garbage": (b"garbage\n", RUBBISH, ""),
    "text instead of a document": (result(0, "warning: x\n" + DENY), RUBBISH, ""),
    "half a line": (result()[:-9], HUNG_UP, ""),
    "a line without its end": (result()[:-1], HUNG_UP, ""),
    "nothing": (b"", HUNG_UP, ""),
    "an error": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no \\"such\\" h\xc3\xa9","data":{"name":"x"}}}\n',
        "error",
        'no "such" h??',
    ),
    "an error without an id": (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}\n',
        "error",
        "bad",
    ),
    "an error without a message": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32700}}\n',
        "error",
        "",
    ),
    "too long": (b"x" * (MAX_FRAME + 2**18), "long", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_refuses_a_gate(form: str, serve: Serve, folder: str, name: str) -> None:
    line, why, detail = BROKEN[name]
    serve(line)

    assert run(form, folder) == refused(why, detail)


@pytest.mark.slow
def test_an_edited_answer_refuses_a_gate(form: str, serve: Serve, folder: str) -> None:
    """Slow: a process for each row of conformance.jsonl."""
    lines = list(entry_lines())
    waiting = iter(lines)
    serve(lambda connection, _: connection.sendall(next(waiting) + b"\n"))

    answers = {line: run(form, folder) for line in lines}

    assert [line for line, answer in answers.items() if answer != refused(RUBBISH)] == []


@pytest.mark.parametrize("name", ["garbage", "half a line", "nothing", "an error", "text instead of a document"])
def test_a_broken_answer_to_what_cannot_be_refused_is_silence(form: str, serve: Serve, folder: str, name: str) -> None:
    serve(BROKEN[name][0])

    assert run(form, folder, kind="context") == SILENT


# -- each host's own form ------------------------------------------------------------------------------------------


def test_each_host_is_refused_in_the_form_that_it_honours(form: str, folder: str) -> None:
    why, shown = (make_reason("no_daemon", b"", reader).decode() for reader in (MODEL, PERSON))
    for host in ("codex", "qwen", "cursor", "generic", "somebody"):
        assert run(form, folder, host=host) == refused("no_daemon")
    denied = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    dialog = {"hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": why}}
    for host, event, expected in (
        ("claude-code", "PreToolUse", {"hookSpecificOutput": denied, "systemMessage": shown}),
        ("claude-code", "PermissionRequest", {"hookSpecificOutput": dialog}),
        ("codex", "PermissionRequest", {"hookSpecificOutput": dialog}),
        ("qwen", "PermissionRequest", {"hookSpecificOutput": dialog}),
        ("gemini", "BeforeTool", {"decision": "deny", "reason": why, "systemMessage": shown}),
        ("copilot", "preToolUse", {"permissionDecision": "deny", "permissionDecisionReason": why}),
        ("codex", "PreCompact", {"continue": False, "stopReason": why}),
        ("opencode", "tool.execute.before", {"verdict": "deny", "reason": why, "person": shown}),
    ):
        code, stdout, stderr = run(form, folder, host=host, event=event)
        assert (code, json.loads(stdout), stderr) == (0, expected, b"")


PROMPT = "hooklatch refused this prompt: it is not running. Run: hooklatch serve --detach"


def test_a_prompt_without_a_daemon_is_refused_to_the_person_in_one_line(form: str, folder: str) -> None:
    for host, event in (("codex", "UserPromptSubmit"), ("qwen", "UserPromptSubmit"), ("cursor", "beforeSubmitPrompt")):
        assert run(form, folder, host=host, event=event) == (2, b"", f"{PROMPT}\n".encode())
    for host, event, word in (("claude-code", "UserPromptSubmit", "block"), ("gemini", "BeforeAgent", "deny")):
        code, stdout, stderr = run(form, folder, host=host, event=event)
        assert (code, json.loads(stdout), stderr) == (0, {"decision": word, "reason": PROMPT}, b"")


def test_a_session_that_begins_without_a_daemon_hears_it_once_in_the_hosts_form(form: str, folder: str) -> None:
    notice = "hooklatch is not running, so prompts and tool calls will be refused. Run: hooklatch serve --detach"
    to_model = notice.replace("Run:", "Tell the user to run:")
    in_context = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": to_model}}
    for host, event, expected in (
        ("claude-code", "SessionStart", {"systemMessage": notice}),
        ("codex", "SessionStart", {"systemMessage": notice}),
        ("gemini", "SessionStart", {"systemMessage": notice}),
        ("qwen", "SessionStart", in_context),
        ("copilot", "sessionStart", {"additionalContext": to_model}),
        ("cursor", "sessionStart", {"additional_context": to_model}),
    ):
        code, stdout, stderr = run(form, folder, host=host, event=event, kind="context")
        assert (code, json.loads(stdout), stderr) == (0, expected, b"")
    told = run(form, folder, host="opencode", event="session.created", kind="notify")
    starting = run(form, folder, host="opencode", event="session.created", kind="notify", starts=True)

    assert (told[0], json.loads(told[1]), told[2]) == (0, {"person": notice}, b"")
    assert starting == (0, b"{}\n", b""), "the first gate starts a daemon"


def test_a_session_that_begins_with_a_daemon_that_fails_hears_nothing(form: str, serve: Serve, folder: str) -> None:
    serve(b"garbage\n")

    assert run(form, folder, host="claude-code", event="SessionStart", kind="context") == SILENT


@pytest.mark.parametrize("kind", ["context", "notify"])
def test_what_cannot_be_refused_is_silent_without_a_daemon(form: str, folder: str, kind: Kind) -> None:
    assert run(form, folder, event="SessionEnd", kind=kind) == SILENT
    assert run(form, folder, host="gemini", event="SessionEnd", kind=kind) == (0, b"{}\n", b"")


def test_an_event_that_nobody_waits_for_is_handed_over_and_its_answer_left_alone(
    form: str, serve: Serve, folder: str
) -> None:
    daemon = serve(result(2, "", "no\n"))

    assert run(form, folder, event="SessionEnd", kind="notify", wait=0) == SILENT
    assert daemon.request()["params"]["event"] == "SessionEnd"


def test_a_daemon_that_hangs_does_not_hold_what_nobody_waits_for(form: str, serve: Serve, folder: str) -> None:
    daemon = serve(until_hung_up)

    assert run(form, folder, event="SessionEnd", kind="notify", wait=600) == SILENT
    assert len(daemon.lines) == 1


# -- time and signals ----------------------------------------------------------------------------------------------


def until_hung_up(connection: socket.socket, _: bytes) -> None:
    connection.recv(1)


def test_a_slow_answer_is_a_refusal_at_the_entrys_own_time_limit(form: str, serve: Serve, folder: str) -> None:
    serve(until_hung_up)

    assert run(form, folder, wait=0.3) == refused("late")


def test_an_input_without_end_is_a_refusal_at_the_time_limit(form: str, serve: Serve, folder: str) -> None:
    serve(result())
    words = command(form, "codex", "PreToolUse", "gate", 0.3, runtime_dir=folder)

    with start(words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.wait() == 2
        assert (process.stdout.read(), process.stderr.read()) == refused("late")[1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_host_that_ends_the_entry_still_gets_a_whole_refusal(
    form: str, serve: Serve, folder: str, number: signal.Signals
) -> None:
    def end_it(connection: socket.socket, _: bytes) -> None:
        process.send_signal(number)
        connection.recv(1)

    words = command(form, "claude-code", "PermissionRequest", "gate", 60, runtime_dir=folder)
    with start(words) as process:
        serve(end_it)
        stdout, stderr = process.communicate(DOCUMENT)

    assert (process.returncode, stderr) == (0, b"")
    message = json.loads(stdout)["hookSpecificOutput"]["decision"]["message"]
    assert message == make_reason("ended", b"", MODEL).decode()


# -- the host's side -----------------------------------------------------------------------------------------------


def test_a_closed_standard_output_refuses(form: str, serve: Serve, folder: str) -> None:
    daemon = serve(result(0, DENY))
    line = ["/bin/sh", "-c", '"$@" >&-', "sh", *words_for(form, folder)]

    done = subprocess.run(line, input=DOCUMENT, capture_output=True, check=False, env={})

    assert (done.returncode, done.stdout, done.stderr) == refused("output", "Bad file descriptor")
    assert daemon.lines == []


def test_a_standard_output_that_nobody_reads_refuses(form: str, serve: Serve, folder: str) -> None:
    serve(result(0, DENY))
    reader, writer = os.pipe()
    os.close(reader)

    with start(words_for(form, folder), stdout=writer) as process:
        os.close(writer)
        _, stderr = process.communicate(DOCUMENT)

    assert (process.returncode, b"", stderr) == refused("output", "Broken pipe")


def test_a_full_standard_output_refuses(form: str, serve: Serve, folder: str) -> None:
    serve(result(0, DENY))

    with open("/dev/full", "wb") as full, start(words_for(form, folder), stdout=full) as process:
        _, stderr = process.communicate(DOCUMENT)

    assert (process.returncode, b"", stderr) == refused("output", "No space left on device")


def test_a_closed_standard_error_changes_nothing(form: str, serve: Serve, folder: str) -> None:
    daemon = serve(result(2, "", "no"))
    line = ["/bin/sh", "-c", '"$@" 2>&-', "sh", *words_for(form, folder)]

    done = subprocess.run(line, input=DOCUMENT, stdout=subprocess.PIPE, check=False, env={})

    assert (done.returncode, done.stdout) == (2, b"")
    assert len(daemon.lines) == 1


def test_a_closed_standard_input_refuses(form: str, folder: str) -> None:
    line = ["/bin/sh", "-c", '"$@" <&-', "sh", *words_for(form, folder)]

    done = subprocess.run(line, capture_output=True, check=False, env={})

    expected = refused("unread", "Bad file descriptor")
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_a_terminal_refuses(form: str, folder: str) -> None:
    ours, theirs = pty.openpty()

    with start(words_for(form, folder), stdin=theirs) as process:
        stdout, stderr = process.communicate()
    os.close(ours)
    os.close(theirs)

    expected = refused("terminal")
    assert (process.returncode, stdout, stderr) == expected


def test_an_input_that_does_not_block_is_read(form: str, serve: Serve, folder: str) -> None:
    daemon = serve(result())
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    with start(words_for(form, folder), stdin=reader) as process:
        os.close(reader)
        os.write(writer, b"late")
        os.close(writer)
        process.communicate()

    assert daemon.request()["params"]["document"] == "late"


@pytest.mark.parametrize("size", [MAX_FRAME - 50, MAX_FRAME + 1])
def test_an_event_that_is_too_large_refuses_once_it_is_read(form: str, serve: Serve, folder: str, size: int) -> None:
    serve(result())

    code, stdout, stderr = run(form, folder, b"x" * size)

    assert (code, stdout) == (2, b"")
    assert b"the event is too large for hooklatch" in stderr


@pytest.mark.parametrize("document", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_an_event_that_is_not_utf_8_refuses(form: str, serve: Serve, folder: str, document: bytes) -> None:
    daemon = serve(result())

    assert run(form, folder, b'{"a":"' + document + b'"}') == refused("encoding")
    assert daemon.lines == []


def test_a_variable_that_is_not_utf_8_refuses(form: str, serve: Serve, folder: str) -> None:
    serve(result())

    done = run(form, folder, environ={"CLAUDE_PROJECT_DIR": "/a/\udcff"})

    assert done == refused("variable", "CLAUDE_PROJECT_DIR")


# -- the command line ----------------------------------------------------------------------------------------------

EXPECTED = "expected HOST EVENT --kind gate|context|notify --wait SECONDS"
SECONDS = "--wait needs seconds, up to 999999.999"
MISUSES = {
    "": EXPECTED,
    "codex": EXPECTED,
    "codex A --kind gate": SECONDS,
    "codex A --wait 0": SECONDS,
    "codex A --wait x": SECONDS,
    "codex A --wait -1": SECONDS,
    "codex A --wait 1e3": SECONDS,
    "codex A --wait 1.": SECONDS,
    "codex A --wait .5": SECONDS,
    "codex A --wait 1.2345": SECONDS,
    "codex A --wait 1234567": SECONDS,
    "codex A --wait": "--wait needs a value",
    "codex A --kind": "--kind needs a value",
    "codex A --wait 1 --runtime-dir": "--runtime-dir needs a value",
    "codex A B --wait 1": "unexpected: B",
    "codex A --wait 1 --other": "unexpected: --other",
    "codex A/B --wait 1": "unexpected: A/B",
    "codex \N{LATIN SMALL LETTER E WITH ACUTE} --wait 1": "unexpected: ??",
    f"codex {'a' * 101} --wait 1": f"unexpected: {'a' * 101}",
}


@table("line", MISUSES)
def test_a_wrong_command_line_refuses_and_says_what_is_wrong(form: str, line: str) -> None:
    program = command(form, "a", "b", "gate", 1)[:-6]
    environ = {"LC_ALL": "C.UTF-8"}

    with start([*program, *line.split()], environ=environ) as process:
        stdout, stderr = process.communicate(DOCUMENT)

    assert (process.returncode, stdout, stderr) == refused("usage", MISUSES[line])


def test_an_unknown_kind_or_none_is_a_gate(form: str, folder: str) -> None:
    program = command(form, "codex", "A", "gate", 1)[:-4]

    for words in (["--wait", "1"], ["--kind", "gates", "--wait", "1"]):
        with start([*program, *words, "--runtime-dir", folder]) as process:
            process.communicate(DOCUMENT)
        assert process.returncode == 2


# -- where the daemon is -------------------------------------------------------------------------------------------


def test_a_socket_that_nobody_serves_refuses(form: str, folder: str) -> None:
    with socket.socket(socket.AF_UNIX) as abandoned:
        abandoned.bind(f"{folder}/agent.sock")

    assert run(form, folder) == refused("no_daemon")


def test_a_path_too_long_for_a_socket_refuses(form: str) -> None:
    assert run(form, "/" + "a" * 200) == refused("no_daemon")


def test_without_a_directory_it_says_so(form: str, folder: str) -> None:
    assert run(form, None, environ={"HOME": folder})[0] == 2


@pytest.mark.parametrize("place", ["run/hooklatch", ".local/state/hooklatch/run", "named"])
def test_each_usual_directory_is_looked_into(form: str, folder: str, place: str) -> None:
    os.mkdir(f"{folder}/run", 0o700)
    os.makedirs(f"{folder}/{place}", exist_ok=True)
    environ = {"HOME": folder, "XDG_RUNTIME_DIR": f"{folder}/run"}
    if place == "named":
        environ["HOOKLATCH_RUNTIME_DIR"] = f"{folder}/named"
    daemon = Daemon(f"{folder}/{place}", result(2, "", "here"))

    done = run(form, None, environ=environ)
    daemon.close()

    assert done == (2, b"", b"here")


def test_a_runtime_directory_that_is_open_to_others_is_not_looked_into(form: str, folder: str) -> None:
    os.makedirs(f"{folder}/run/hooklatch")
    os.chmod(f"{folder}/run", 0o755)
    daemon = Daemon(f"{folder}/run/hooklatch", result())

    done = run(form, None, environ={"HOME": folder, "XDG_RUNTIME_DIR": f"{folder}/run"})
    daemon.close()

    assert done[0] == 2


def words_for(form: str, folder: str) -> list[str]:
    return command(form, "codex", "PreToolUse", "gate", 30, runtime_dir=folder)
