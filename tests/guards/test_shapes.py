"""Each shape in which a shell runs something is shown or refused, for guards and for conditions alike."""

from __future__ import annotations

from typing import Any

import pytest

from guards.calls_of_tools import may_call_hook, verdict
from guards.programs import DESTROYING
from guards.programs_of_git import WRITTEN
from guards.quiet import QUIET
from guards.shapes import RUNNING
from hooklatch.guards import UnreadableCommandError, commands
from hooklatch.guards.gallery import destructive_commands, git_rules, protected_paths
from hooklatch.shelltext.reading.builtins import CHANGING
from support.tables import table

STOPPED = {**DESTROYING, **WRITTEN}
# In these, words that are none of the program stand behind it, which the shell runs without them.
ONLY_HALF = {"ls &>x rm -rf /"}
PRINTED = {"bash -c \"$(echo 'rm -rf /')\""}  # which paths a text names that is decided only then, nobody knows
SHAPES = [text for texts in RUNNING.values() for text in texts if text not in ONLY_HALF]
FORCED = [text.replace("rm -rf /", "git push -f") for text in SHAPES if "rm -rf /" in text]
WRITING = [text.replace("rm -rf /", "touch .env") for text in SHAPES if "rm -rf /" in text and text not in PRINTED]


GUARDS = {
    "destructive_commands": destructive_commands.destructive_commands,
    "git_rules": git_rules.git_rules,
    "protected_paths": protected_paths.protected_paths,
}


@table(
    ("guard", "text"),
    [
        *((destructive_commands.destructive_commands, text) for text in SHAPES),
        *((git_rules.git_rules, text) for text in FORCED),
        *((protected_paths.protected_paths, text) for text in WRITING),
    ],
)
def test_what_runs_is_refused_or_asked_about(guard: Any, text: str) -> None:
    assert verdict(guard, text) != "pass"


@table(("name", "text"), [(name, text) for name, texts in STOPPED.items() for text in texts.strip().splitlines()])
def test_what_a_program_is_told_is_read_as_it_reads_it(name: str, text: str) -> None:
    assert verdict(GUARDS[name], text) != "pass"


@table(("name", "text"), [(name, text) for name in STOPPED for text in QUIET.strip().splitlines()])
def test_words_that_only_name_a_program_are_no_reason_to_ask(name: str, text: str) -> None:
    assert verdict(GUARDS[name], text) == "pass"


@table("text", SHAPES)
def test_a_condition_calls_its_hook_for_what_runs(text: str) -> None:
    assert may_call_hook("rm", text)


@table(
    "text",
    ["a\0b", "a\x01b", "a\x7fb", "a\u2028b", "a\ud800b", 5, ["ls"], None, "(" * 2**20, "$(" * 2**19, "{" * 2**20],
)
def test_what_is_no_shell_text_is_refused_with_a_reason(text: Any) -> None:
    with pytest.raises(UnreadableCommandError, match=r"\w+ \w+"):
        commands(text)
    assert verdict(destructive_commands.destructive_commands, text) == "deny"


def test_a_refusal_says_where_it_is_and_what_stands_there() -> None:
    with pytest.raises(UnreadableCommandError) as caught:
        commands('ls -l; echo "a" @(b) c')

    assert caught.value.offset == 17
    assert caught.value.piece == "(b) c"
    assert "at character 18: '(b) c'" in str(caught.value)


@table(
    ("text", "shell", "programs"),
    [
        ("[[ -f x ]] && ls", "bash", ["ls"]),
        ("ls &> f", "bash --posix", ["ls"]),
        ("time ls", "dash", ["time", "ls"]),
        ("time ls", "bash", ["ls"]),
        ("echo {a,b}", "dash", ["echo"]),
        ("ls; cat < f | wc", "sh", ["ls", "cat", "wc"]),
    ],
)
def test_each_shell_is_read_in_its_own_language(text: str, shell: str, programs: list[str]) -> None:
    assert [one.program for one in commands(text, shell=shell)] == programs


@table(
    ("text", "shell"),
    [
        (text, shell)
        for text in (
            "[[ -f x ]]",
            "ls &> f",
            "ls |& cat",
            "(( 1 ))",
            "cat <<< x",
            "echo $'a'",
            "a=(b)",
            "a+=b",
            "cat <(ls)",
        )
        for shell in ("dash", "sh")
    ],
)
def test_what_only_bash_knows_is_not_read_for_another_shell(text: str, shell: str) -> None:
    commands(text)
    with pytest.raises(UnreadableCommandError):
        commands(text, shell=shell)


@table("name", sorted(CHANGING))
def test_a_builtin_that_changes_how_the_rest_is_read_is_refused(name: str) -> None:
    for text in (f"{name} x", f"command {name} x", f"'{name}' x", f"ls; {name} x"):
        with pytest.raises(UnreadableCommandError):
            commands(text)
