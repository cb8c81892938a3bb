"""completion: the scripts do what they promise, each in its real shell, and names that a shell could run are left out.

Slow: shells and daemons are processes.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hooklatch.cli.completion import make_completion_script
from support.commands import Daemon, new_place, serving
from support.tables import table
from support.terminals import terminal

pytestmark = pytest.mark.slow

EVIL = "$(touch pwned)"
HOOK = '[[hook]]\nid = "{}"\nevent = "pre_tool_use"\ncommand = "true"\n'
CONFIG = HOOK.format("no-rm") + HOOK.format("guards:no_push") + HOOK.format(EVIL)
CASES = (
    (["statu"], {"status"}),
    (["hooks", "ex"], {"explain"}),
    (["guards", "show", "git"], {"git_rules"}),
    (["guards", "add", "git"], {"git_rules"}),
    (["asks", "answer", "no"], set()),  # and no hook, which no ask is
    (["status", "--tr"], {"--tree"}),
    (["serve", "--log-level", ""], {"debug", "info", "warning", "error"}),
    (["install", "gem"], {"gemini"}),
    (["fire", "pre_to"], {"pre_tool_use"}),
    (["log", "--verdict", "d"], {"deny"}),
    (["hooks", "disable", "no"], {"no-rm"}),
    (["hooks", "disable", "guards:no"], {"guards:no_push"}),
    (["log", "--hook", "guards:no"], {"guards:no_push"}),
)
IN_BASH = """
COMP_WORDS=(hooklatch "$@"); COMP_CWORD=$#; COMPREPLY=()
_shtab_hooklatch; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Daemon]:
    with new_place({"hooks.toml": CONFIG}) as place:
        command = place.folder / "bin" / "hooklatch"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hooklatch "$@"\n')
        command.chmod(0o755)
        place.environment["PATH"] = f"{command.parent}:{place.environment['PATH']}"
        for shell in ("bash", "zsh", "fish"):
            (place.folder / f"script.{shell}").write_text(make_completion_script(shell))
        with serving(place) as daemon:
            yield daemon


def words_from(daemon: Daemon, command: list[str]) -> set[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=daemon.place.folder, env=daemon.place.environment,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {line.partition("\t")[0].strip() for line in done.stdout.splitlines() if line.strip()}


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


def test_the_words_are_names_that_no_shell_takes_for_an_order(served: Daemon) -> None:
    names = [hook["id"] for hook in served.place.json("hooks")["hooks"]]

    words = served.place.run("completion", "--words", "hooks").stdout.split()

    assert EVIL in names
    assert words == ["guards:no_push", "no-rm"]


@table("kind, known", [("events", "pre_tool_use"), ("asks", ""), ("hooks", ""), ("sessions", "")])
def test_without_a_daemon_the_words_are_the_standard_ones(kind: str, known: str) -> None:
    with new_place() as place:
        done = place.run("completion", "--words", kind)

    assert (done.returncode, done.stderr) == (0, "")
    assert known in done.stdout


@needs("bash")
@table("words, expected", CASES)
def test_bash_completes(served: Daemon, words: list[str], expected: set[str]) -> None:
    command = ["bash", "--norc", "-c", f". ./script.bash\n{IN_BASH}", "bash", *words]

    assert words_from(served, command) == expected
    assert not (served.place.folder / "pwned").exists()


@needs("fish")
@table("words, expected", CASES)
def test_fish_completes(served: Daemon, words: list[str], expected: set[str]) -> None:
    line = " ".join(["hooklatch", *words])
    command = ["fish", "--no-config", "-c", f"source script.fish; complete -C {shlex.quote(line)}"]

    assert words_from(served, command) == expected
    assert not (served.place.folder / "pwned").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_no_daemon_is_asked_at_the_start_of_a_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    with new_place() as place:
        asked = place.folder / "asked"
        (place.folder / "hooklatch").write_text(f"#!/bin/sh\necho asked >> {asked}\n")
        (place.folder / "hooklatch").chmod(0o755)
        (place.folder / "script").write_text(make_completion_script(shell))
        environment = {**place.environment, "PATH": f"{place.folder}:{place.environment['PATH']}"}
        command = [shell, "-c", "source ./script"]
        subprocess.run(command, cwd=place.folder, env=environment, capture_output=True, check=True)

        assert not asked.exists()


@needs("zsh")
def test_zsh_completes_at_a_terminal(served: Daemon) -> None:
    place = served.place
    environment = {**place.environment, "PS1": "ready> ", "LANG": "C.UTF-8"}
    with terminal(["zsh", "-f", "-i"], environment=environment, folder=place.folder) as shell:
        shell.until("ready> ")
        shell.type("autoload -U compinit; compinit -D -u; eval \"$(<script.zsh)\"; echo loa''ded\n")
        shell.until("loaded")
        for words, expected in CASES:
            if len(expected) != 1:
                continue  # nothing, or a menu, which depends on the shell's settings
            begun = len(shell.seen)
            (word,) = expected
            shell.type(f"\x15: ; hooklatch {' '.join(words)}\t")
            shell.until(word.removeprefix(words[-1]), after=begun)
        shell.type("\x15exit\n")
        shell.rest()

    assert not (place.folder / "pwned").exists()
