"""The entry point: what it imports, how usage errors end, and that each command explains itself."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hooklatch.cli.commands import COMMANDS, MEANT, build_command_line
from hooklatch.cli.terminal.parser import Exit, Parser
from support.commands import PROGRAM, Place, new_place, serving
from support.tables import table
from support.terminals import shown_at, terminal

HEAVY = ("argparse", "rich", "trio", "msgspec", "psutil", "asyncio", "logging")
LOOK = "import sys\n{}\nprint()\nprint(*[name for name in {!r} if name in sys.modules])"
LATER_ARGPARSE = """
import argparse

plain_init, plain_add = argparse.ArgumentParser.__init__, argparse._SubParsersAction.add_parser

def init(self, *args, suggest_on_error=False, color=True, **options):
    plain_init(self, *args, **options)

def add_parser(self, name, *, deprecated=False, **options):
    return plain_add(self, name, color=True, **options)

argparse.ArgumentParser.__init__, argparse._SubParsersAction.add_parser = init, add_parser
from hooklatch.cli.commands import build_command_line
print(build_command_line().parse_args(["hooks", "add", "stop", "--run", "guards.py:f"]).target)
"""


def modules_after(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(code, HEAVY)], capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout.rpartition("\n\n")[2].split()


def test_the_door_imports_nothing_heavy() -> None:
    assert modules_after("import hooklatch.cli, hooklatch.__main__") == []


def test_the_table_of_commands_imports_none_of_them() -> None:
    assert modules_after("import hooklatch.cli.commands") == ["argparse"]


@table("words", [["--help"], ["status", "--help"], ["stop", "--help"], ["hooks", "list", "--help"]])
def test_what_only_asks_the_daemon_imports_the_standard_library_alone(words: list[str]) -> None:
    code = f"sys.argv[1:] = {words}\nfrom hooklatch.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass"

    assert modules_after(code) == ["argparse"]


COUNT = """import sys
before = {*sys.modules}
sys.argv[1:] = %r
from hooklatch.cli import main
try:
    main()
except SystemExit:
    pass
print(*sorted({*sys.modules} - before), file=sys.stderr)
"""
# Modules that a command loads beside those of an interpreter: what a person waits for, counted and not timed.
# `log` says what was judged: core.subject comes with hooklatch_worker.author.tools, which knows where a tool has it.
MOST = (("--help", 48), ("status", 60), ("hooks", 60), ("log", 75))


@pytest.fixture(scope="module")
def fired() -> Iterator[Place]:
    with new_place() as place, serving(place):
        place.fire_tool("Bash", command="ls")
        yield place


@table(("words", "most"), MOST)
def test_what_is_asked_for_most_loads_few_modules(words: str, most: int, fired: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT % ([words],)], env=fired.environment, cwd=fired.folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    loaded = done.stderr.splitlines()[-1].split()

    assert done.stdout
    assert "hooklatch.cli.commands" in loaded
    assert "typing" not in loaded, "it is a sixth of what a command takes"
    assert len(loaded) <= most, loaded


def test_without_a_daemon_the_status_loads_few_modules_too(place: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT % (["status"],)], env=place.environment, cwd=place.folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip

    assert "hooklatch.record.storage.reading" in done.stderr
    assert len(done.stderr.splitlines()[-1].split()) <= 68, done.stderr


def test_the_version_needs_no_parser() -> None:
    code = "sys.argv[1:] = ['--version']\nfrom hooklatch.cli import main\nmain()"

    assert modules_after(code) == []


def test_firing_imports_the_standard_library_alone() -> None:
    assert modules_after("import hooklatch.cli.testing.fire") == ["argparse"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="its own argparse does what is imitated here")
def test_the_parsers_take_what_argparse_of_python_3_14_gives_to_those_below_a_command() -> None:
    done = subprocess.run([sys.executable, "-c", LATER_ARGPARSE], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "guards.py:f\n"), done.stderr


@table("command", [*(name for rows in COMMANDS.values() for name, _, _ in rows), "hooks add", "hooks explain", ""])
def test_help_has_an_example_and_exit_codes(command: str) -> None:
    parser = build_command_line().declared()
    for word in command.split():
        parser = parser.commands[word].declared()

    text = parser.format_help()

    assert "example: " in text
    assert not command or "exit codes:" in text


def test_every_exit_code_has_a_meaning() -> None:
    assert all(code.meaning for code in Exit)


@pytest.mark.parametrize(
    "words", [["statsu"], ["fire"], ["fire", "stop", "--timeout", "0"], ["status", "-n"], ["watch", "--count", "x"]]
)  # fmt: skip
def test_misuse_ends_with_64_and_points_to_the_help(place: Place, words: list[str]) -> None:
    done = place.run(*words)

    assert done.returncode == 64
    assert "--help" in done.stderr
    assert done.stdout == ""


@table(
    "words, near",
    [
        (["statu"], "'status'"),
        (["statsu"], "'stats' or 'status'"),
        (["start"], "'serve --detach'"),
        (["-v"], "'--version'"),
        (["log", "--grep", "x"], "'--text'"),
        (["fire", "stop", "--command", "ls"], "'hooklatch try COMMAND'"),
        (["hooks", "enabel"], "'enable'"),
        (["enable", "x"], "'hooks enable'"),
        (["rollback"], "'fleet rollback'"),
        (["--jsn", "status"], "'--json'"),
        (["status", "--tre"], "'--tree'"),
        (["fire", "stop", "--paylod=x"], "'--payload'"),
        (["serve", "--log-level", "inf"], "'info'"),
    ],
)
def test_what_is_misspelt_gets_the_nearest_name(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        build_command_line().parse_args(words)

    assert ended.value.code == 64
    assert f"did you mean {near}?" in capsys.readouterr().err


def test_what_other_programs_call_a_command_is_one_of_ours() -> None:
    for meant in MEANT.values():
        parser = build_command_line().declared()
        for word in meant.split():
            if word.startswith("-"):
                assert any(word in action.option_strings for action in parser.arguments()), meant
            else:
                parser = parser.commands[word].declared()


def test_a_text_without_its_quotes_is_shown_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_command_line().parse_args(["try", "rm", "-rf", "a b", "--json"])

    typed = capsys.readouterr().err.partition("in quotes: ")[2].partition("\n")[0]
    assert shlex.split(typed) == ["hooklatch", "try", "rm -rf 'a b'"]


@table("words", [["state"], ["fleet"]])
def test_what_only_has_commands_below_it_prints_its_help_and_is_no_success(place: Place, words: list[str]) -> None:
    done = place.run(*words)

    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == place.run(*words, "--help").stdout


def test_help_that_cannot_be_written_is_an_error_in_words(place: Place) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    closed = subprocess.run(
        f"{shlex.join(PROGRAM)} --help >&-", shell=True, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (
        74,
        "hooklatch: standard output cannot be written: No space left on device\n",
    )
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("suspend", "a", "--fro", "1m", "--reason", "x"), "'--for'"),
        (("help",), "'--help'"),
        (("status", ""), "''"),
    ],
)
def test_what_is_missing_may_be_there_and_misspelt(place: Place, words: tuple[str, ...], meant: str) -> None:
    done = place.run(*words)

    assert done.returncode == 64
    assert meant in done.stderr.splitlines()[0]


def test_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line for parser in all_parsers(build_command_line()) for line in parser.format_help().splitlines()]

    assert len(lines) > 500
    long = [line for line in lines if len(line) > 80 and not line.startswith("example: ")]
    assert not [line for line in long if not line.strip().startswith("[")]  # argparse's own lines of a choice


def test_help_is_wrapped_at_words_on_a_narrow_terminal(place: Place) -> None:
    _, text = shown_at([*PROGRAM, "log", "--help"], environment=place.environment, folder=place.folder, columns=60)

    lines = text.splitlines()
    assert not [line for line in lines if len(line) > 60 and not line.startswith("example: ")]
    assert "  acknowledge  acknowledge" in text


def test_a_server_that_is_interrupted_shows_no_traceback(place: Place) -> None:
    with terminal([*PROGRAM, "listen"], environment=place.environment, folder=place.folder) as person:
        person.until("listening on")
        person.type("\x03")
        text = person.rest()

    assert "Traceback" not in text
    assert person.process.returncode == 130


def test_words_of_a_command_line_cannot_command_the_terminal(place: Place) -> None:
    done = place.run("status", "--\x1b[31mred")

    assert done.returncode == 64
    assert r"unrecognized arguments: --\x1b[31mred" in done.stderr


@table("words", [["dashboard", "--port", "65536"], ["dashboard", "--port", "x"], ["listen", "--port", "9" * 5000]])
def test_a_port_that_is_none_is_told_what_one_is(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_command_line().parse_args(words)

    assert "is not a port; write a number up to 65535" in capsys.readouterr().err


def all_parsers(parser: Parser) -> Iterator[Parser]:
    yield parser.declared()
    for below in parser.commands.values():
        yield from all_parsers(below)


def test_options_may_stand_before_the_command(place: Place) -> None:
    done = place.run("--runtime-dir", str(place.folder / "elsewhere"), "status")

    assert done.returncode == 69
    assert str(place.folder / "elsewhere/admin.sock") in done.stderr


def test_the_version_is_printed(place: Place) -> None:
    assert place.run("--version").stdout.startswith("hooklatch ")
