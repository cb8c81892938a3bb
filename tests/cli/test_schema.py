"""schema: each command has one, all are written at release, and what commands and configurations really say is valid.

Slow: the outputs are those of real commands at a real daemon.
"""

from __future__ import annotations

import io
import json
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from hooklatch.cli.commands import build_command_line, run
from hooklatch.cli.daemon.init import CONFIG_TEXT
from hooklatch.cli.schema import (
    CONFIG,
    find_schema,
    format_schema,
    list_schema_names,
    schema_file_name,
)
from hooklatch.cli.terminal.parser import Parser
from support.commands import Daemon, new_place, payload, serving
from support.described import check
from support.repository import ROOT

FILES = """
[[source]]
path = "guards.py"

[[hook]]
id = "slow-notes"
event = "post_tool_use"
command = "true"
match = { glob = "Ba*" }
"""
GUARDS = """
from hooklatch import deny, hook

@hook("pre_tool_use", match=["Bash", "Crash"])
def judge(event):
    if event.tool_name == "Crash":
        raise ValueError("a bug")
    return deny("no") if "rm" in event.tool_input["command"] else None
"""


def leaves(parser: Parser, name: str = "") -> Iterator[str]:
    """Yield the commands that do something by themselves."""
    for word, below in parser.declared().commands.items():
        path = f"{name} {word}".strip()
        if below.declared().get_default("run") is not None and not below.get_default("run").__name__.startswith("_"):
            yield path
        yield from leaves(below, path)


def test_every_command_declares_what_it_prints() -> None:
    missing = {*leaves(build_command_line())} - {*list_schema_names()}

    # They print another program's lines, a page, schemas, and a screen; others: parser.prints(SHAPE).
    assert missing == {"mcp", "report", "schema", "ui"}


def test_all_of_them_are_written_to_files(tmp_path: Path) -> None:
    code = run(["schema", "--all", str(tmp_path / "new/schemas")])

    files = {path.name: path.read_text() for path in (tmp_path / "new/schemas").iterdir()}
    assert code == 0
    assert files == {
        schema_file_name(name): format_schema(find_schema(name) or {}) + "\n" for name in list_schema_names()
    }
    for text in files.values():
        Draft202012Validator.check_schema(json.loads(text))


def test_configurations_are_valid_and_misspelt_ones_are_not() -> None:
    validator = Draft202012Validator(find_schema(CONFIG))
    examples = [path.read_text() for path in (ROOT / "examples").rglob("hooks.toml")]

    for text in (CONFIG_TEXT, CONFIG_TEXT.replace("\n# ", "\n").replace("The hooks", "# "), FILES, *examples):
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue  # the commented prose of the first one
        validator.validate(document)
    for wrong in ('[[sorce]]\npath = "x"', '[[hook]]\nid = "a"\nevent = "stop"\ncommand = "x"\ntimout = 1'):
        assert not validator.is_valid(tomllib.loads(wrong))


@pytest.fixture(scope="module")
def served() -> Iterator[Daemon]:
    with new_place({"hooks.toml": FILES, "guards.py": GUARDS}) as place, serving(place) as daemon:
        place.fire_tool("Bash", command="rm x")
        place.fire_tool("Crash")
        yield daemon


@pytest.mark.slow
def test_what_commands_say_is_as_described(
    served: Daemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = served.place
    crash = payload("Crash")
    place.write({"broken.py": "def f(:"})
    (place.folder / "cases.toml").write_text(
        '[[case]]\nevent = "pre_tool_use"\nexpect = "deny"\npayload = { tool_name = "Bash", '
        'tool_input = { command = "rm" } }\n'
    )
    said: list[tuple[str, list[str], str]] = [
        ("status", ["status"], ""),
        ("status", ["status", "--tree"], ""),
        ("health", ["health"], ""),
        ("reload", ["reload"], ""),
        ("sessions", ["sessions"], ""),
        ("hooks", ["hooks"], ""),
        ("hooks show", ["hooks", "show", "guards:judge"], ""),
        ("hooks add", ["hooks", "add", "stop", "--run", "config/guards.py:judge", "--id", "mine"], ""),
        ("hooks disable", ["hooks", "disable", "mine"], ""),
        ("hooks enable", ["hooks", "enable", "mine"], ""),
        ("hooks remove", ["hooks", "remove", "mine"], ""),
        ("hooks explain", ["hooks", "explain", "pre_tool_use", "--payload", "-"], crash),
        ("top", ["top", "--interval", "10ms"], ""),
        ("events", ["events"], ""),
        ("fire", ["fire", "pre_tool_use", "--payload", "-"], crash),
        ("asks", ["asks"], ""),
        ("suspend", ["suspend", "guards:judge", "--for", "1m", "--reason", "a test"], ""),
        ("status", ["status"], ""),
        ("resume", ["resume", "--all"], ""),
        ("log", ["log", "-n", "1"], ""),
        ("log verify", ["log", "verify"], ""),
        ("log acknowledge", ["log", "acknowledge", "--reason", "a test"], ""),
        ("trust", ["trust", "--list"], ""),
        ("doctor", ["doctor"], ""),
        ("test", ["test", "cases.toml", "--coverage"], ""),
        ("check", ["check"], ""),
        ("dev", ["dev", "config/guards.py", "--once", "--payload", "-"], crash),
        ("dev", ["dev", "config/broken.py", "--once"], ""),
        ("import", ["import", "-"], '{"hooks": {"Stop": [{"command": "date"}]}}'),
        ("install", ["install", "gemini", "--dry-run"], ""),
        ("uninstall", ["uninstall", "gemini", "--dry-run"], ""),
        ("listen", ["listen", "--settings", "--port", "7437"], ""),
        ("completion", ["completion", "bash"], ""),
        ("fleet keygen", ["fleet", "keygen"], ""),
    ]
    watch = place.begin("watch", "--json")
    watch.wait_for("watching")
    place.enter(monkeypatch)
    for name, words, stdin in said:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        run([*words, "--json"])  # here, since thirty interpreters would take most of the time
        out, err = capfd.readouterr()
        assert out, f"{words}: {err}"
        if name == "log":
            Draft202012Validator(find_schema(name)).validate(
                json.loads(out)
            )  # its kinds are in docs/reference/record.md
        else:
            check(name, json.loads(out))
    watch.signal(signal.SIGINT)
    announced = [json.loads(line) for line in watch.end()[1].splitlines()]
    assert {one["topic"] for one in announced} == {"decisions", "registry", "operations"}
    for one in announced:
        check("watch", one)
    check("serve", served.ready)
    check("init", place.json("init", "--config", "first/hooks.toml"))  # apart: it changes the umask of its process


@pytest.mark.slow
def test_without_a_daemon_the_status_is_as_described_too() -> None:
    with new_place() as place:
        done = place.run("status", "--json")

        check("status", json.loads(done.stdout))


def test_a_key_that_nobody_described_is_found() -> None:
    said = {"stopped": True, "pid": 1, "seconds": 0.5}

    check("stop", said)
    Draft202012Validator(find_schema("stop")).validate({**said, "more": 1})  # a reader passes over it
    with pytest.raises(AssertionError, match="'more'"):
        check("stop", {**said, "more": 1})
