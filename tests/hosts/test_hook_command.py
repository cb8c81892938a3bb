"""The hook command's own command line, input, output and start-up cost."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hooklatch.hosts import claude_code, shim
from support.host_daemon import (
    PYTHON,
    SHIM,
    Start,
    answer,
    assert_silent,
    hook,
    is_blocked,
    recorded,
    said,
)


@pytest.mark.parametrize("stdin", [b"", b"not json", b"[]", b'{"hook_event_name":"PreToolUse"', b"{}"])
def test_unreadable_input_blocks(stdin: bytes) -> None:
    done = hook(stdin)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"hooklatch hook: refused: ")


def test_unreadable_input_of_a_known_event_fails_as_that_event_does() -> None:
    assert is_blocked("PermissionRequest", hook(b"not json", "--event", "PermissionRequest"))
    assert is_blocked("PreToolUse", hook(b"not json", "--event", "PreToolUse"))
    assert_silent(hook(b"not json", "--event", "Stop"))


def test_a_byte_order_mark_is_read_over(start: Start, folder: str) -> None:
    daemon = start(answer("pre_tool_use", "pass"))

    assert_silent(hook(b"\xef\xbb\xbf" + recorded("PreToolUse") + b"\r\n", "--runtime-dir", folder))

    assert json.loads(daemon.lines[0])["params"]["payload"]["tool_name"] == "Read"


@pytest.mark.parametrize("name", ["PreToolUse", "PermissionRequest"])
def test_nine_mebibytes_are_refused_without_asking(start: Start, folder: str, name: str) -> None:
    daemon = start(answer("pre_tool_use", "pass"))
    document = {**json.loads(recorded(name)), "tool_input": {"content": "a" * 9 * 2**20}}

    done = hook(json.dumps(document).encode(), "--runtime-dir", folder)

    assert is_blocked(name, done)
    assert "(payload)" in done.stdout.decode()
    assert daemon.lines == []


def test_a_called_event_that_is_not_the_installed_one_is_refused() -> None:
    done = hook(recorded("PreToolUse"), "--event", "Stop")

    assert is_blocked("PreToolUse", done)
    assert "install the settings again" in done.stdout.decode()


@pytest.mark.parametrize("installed", ["PreToolUse", "PermissionRequest", "UserPromptSubmit"])
@pytest.mark.parametrize("name", ["PreToolUseAgain", "PostToolUse", ""])
def test_an_event_that_is_not_the_gate_it_is_installed_for_is_refused(installed: str, name: str) -> None:
    document = {**json.loads(recorded("PostToolUse")), "hook_event_name": name}

    assert is_blocked(installed, hook(json.dumps(document).encode(), "--event", installed))


def test_an_unknown_event_that_is_installed_for_none_is_left_alone() -> None:
    document = {**json.loads(recorded("PostToolUse")), "hook_event_name": "OfTomorrow"}

    assert_silent(hook(json.dumps(document).encode()))
    assert_silent(hook(json.dumps(document).encode(), "--event", "PostToolUse"))


@pytest.mark.parametrize("name", ["PreToolUse", "PermissionRequest", "UserPromptSubmit"])
@pytest.mark.parametrize("words", [(), ("--event",)])
@pytest.mark.parametrize(
    "at", [b'{"tool_input":{"command":"ls","comm\\u0061nd":"rm"},', b'{"cwd":"/one","cwd":"/two",']
)
def test_a_key_that_stands_twice_is_refused_without_asking(
    start: Start, folder: str, name: str, words: tuple[str, ...], at: bytes
) -> None:
    daemon = start(answer("pre_tool_use", "pass"))
    rest = {key: value for key, value in json.loads(recorded(name)).items() if key not in ("tool_input", "cwd")}
    options = (*words, name) if words else ()

    done = hook(at + json.dumps(rest).encode()[1:], "--runtime-dir", folder, *options)

    assert is_blocked(name, done)
    assert b"occurs twice in one object" in done.stdout + done.stderr
    assert daemon.lines == []


def test_an_event_that_says_twice_what_it_is_blocks() -> None:
    assert hook(b'{"hook_event_name":"PreToolUse","hook_event_name":"Stop"}').returncode == 2


def shell(line: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    command = shlex.join([*PYTHON, str(SHIM), "claude-code", "--runtime-dir", "/none"])
    return subprocess.run(["sh", "-c", f"{command} {line}"], input=stdin, capture_output=True, check=False)


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "1</dev/null"])
def test_a_deny_that_cannot_be_written_still_blocks(redirection: str) -> None:
    done = shell(redirection, recorded("PreToolUse"))

    assert done.returncode == 2
    assert b"could not be written" in done.stderr


def test_a_closed_error_output_changes_nothing() -> None:
    assert shell(">/dev/full 2>&-", recorded("PreToolUse")).returncode == 2


def test_a_closed_input_blocks() -> None:
    assert shell("<&-", b"").returncode == 2


def test_a_reader_that_left_is_no_permission() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*PYTHON, str(SHIM), "claude-code", "--runtime-dir", "/none"]

    done = subprocess.run(command, input=recorded("PreToolUse"), stdout=writing, stderr=subprocess.PIPE, check=False)

    os.close(writing)
    assert done.returncode == 2


@pytest.mark.parametrize("words", [["--bogus"], ["--runtime-dir"], ["--event", "Nonsense"], ["codex"]])
def test_misuse_blocks_since_claude_code_goes_on_after_any_other_exit_code(words: list[str]) -> None:
    done = hook(recorded("PreToolUse"), *words)

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"usage: hooklatch hook" in done.stderr


@pytest.mark.parametrize("host", [[], ["claude-cod"]])
def test_an_unknown_host_is_answered_with_the_known_ones(host: list[str]) -> None:
    done = subprocess.run([*PYTHON, str(SHIM), *host], input=b"", capture_output=True, check=False)

    assert done.returncode == 2
    assert b"expected one host of claude-code" in done.stderr


def test_help_shows_an_example() -> None:
    done = hook(b"", "--help")

    assert done.returncode == 0
    assert b"example: hooklatch hook claude-code" in done.stdout


def test_options_without_effect_are_accepted(start: Start, folder: str) -> None:
    start(answer("pre_tool_use", "pass"))

    assert_silent(hook(recorded("PreToolUse"), f"--runtime-dir={folder}", "--config", "/c.toml", "--json"))


def test_the_settings_name_every_event_and_block_on_failure_only_where_that_works() -> None:
    hooks = said(hook(b"", "--settings", "--runtime-dir", "/run/it's here"))["hooks"]

    assert hooks.keys() == claude_code.EVENTS.keys()
    handlers = {name: group["hooks"][0] for name, (group,) in hooks.items()}
    assert {name for name, handler in handlers.items() if "onFailure" in handler} == {
        "PreToolUse",
        "UserPromptSubmit",
    }
    assert all(handler["timeout"] > claude_code.timeout_of(name) for name, handler in handlers.items())
    assert handlers["SessionEnd"]["timeout"] <= 60
    words = ["--event", "Stop", "--runtime-dir", "/run/it's here"]
    assert shlex.split(handlers["Stop"]["command"])[1:] == ["-I", "-S", str(SHIM), "claude-code", *words]


def test_the_installed_command_works_as_it_stands(start: Start, folder: str) -> None:
    start(answer("pre_tool_use", "deny"))
    settings = said(hook(b"", "--settings", "--runtime-dir", folder))
    command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]

    done = subprocess.run(["sh", "-c", command], input=recorded("PreToolUse"), capture_output=True, check=False)

    assert is_blocked("PreToolUse", done)
    assert "why (hooklatch)" in done.stdout.decode()


def test_the_console_command_enters_by_the_same_door(folder: str) -> None:
    words = ["claude-code", "--runtime-dir", folder]
    code = f"import sys; from hooklatch.hosts import shim; sys.exit(shim.main({words!r}))"

    done = subprocess.run([sys.executable, "-c", code], input=recorded("PreToolUse"), capture_output=True, check=False)

    assert is_blocked("PreToolUse", done)


def test_a_broken_installation_blocks(tmp_path: Path) -> None:
    alone = tmp_path / "hooklatch" / "hosts" / "shim.py"
    alone.parent.mkdir(parents=True)
    alone.write_bytes(SHIM.read_bytes())

    done = subprocess.run([*PYTHON, str(alone), "claude-code"], input=b"{}", capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"ModuleNotFoundError" in done.stderr


def test_an_unexpected_error_at_a_gate_is_its_deny(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from hooklatch.hosts import hook_command

    def surprise(*_: object) -> dict[str, object]:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(hook_command, "decide", surprise)
    monkeypatch.setattr(hook_command, "_read_input", lambda: recorded("PermissionRequest"))

    code = shim.main(["claude-code", "--runtime-dir", "/none"])

    decision = json.loads(capfd.readouterr().out)["hookSpecificOutput"]["decision"]
    assert (code, decision["behavior"]) == (0, "deny")
    assert "ZeroDivisionError" in decision["message"]


def test_nothing_heavy_is_imported(start: Start, folder: str) -> None:
    start(answer("pre_tool_use", "deny"))
    command = [*PYTHON, "-X", "importtime", str(SHIM), "claude-code", "--runtime-dir", folder]

    done = subprocess.run(command, input=recorded("PreToolUse"), capture_output=True, check=False)

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert is_blocked("PreToolUse", done)
    assert "hooklatch.hosts.hook_command" in imported
    heavy = "json re enum typing socket msgspec trio argparse dataclasses os site pathlib functools collections"
    assert imported.isdisjoint(heavy.split())
