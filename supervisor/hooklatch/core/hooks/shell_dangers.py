"""The search for files that a shell hook runs and an agent can write.  Reads commands' words; looks at no file.

A command runs in the agent's folder.  Its protection there (`hooklatch_worker/runtime/shell_runner.py`) covers neither
a relative path inside a shell's text nor an interpreter that looks for code in its working directory.  A warning names
these, so that the operator writes an absolute path or `run_in = "file"`.  A name that is only known when the command
runs can be missed, and a warning refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hooklatch.core.hooks.shell_definitions import ShellCommand
from hooklatch.shelltext.grammar.languages import COMMON
from hooklatch.shelltext.grammar.reader import parse_script
from hooklatch.shelltext.grammar.tree import ShellWord, list_simple_commands
from hooklatch.shelltext.words import UnreadableCommandError

__all__ = ["find_dangers"]

# Programs that run the program in their arguments.
WRAPPERS = frozenset(
    {"builtin", "command", "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf", "sudo", "time", "timeout"}
)
SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})
# Interpreters whose first argument, after the options, is a file with code.
INTERPRETERS = frozenset(
    {*SHELLS, "bun", "deno", "lua", "node", "perl", "php", "pypy", "python", "Rscript", "ruby", "tclsh"}
)
INLINE = ("-c", "-e", "-E", "-m", "-p", "-r", "--eval", "--print")  # code, or a module: no file follows
# Options of interpreters after which code is loaded from a path.
LOADING = frozenset({"-I", "-r", "--require", "--import", "--loader", "--rcfile", "--init-file"})
# Programs that run what files in their working directory name.
PROJECT_RUNNERS = frozenset(
    {
        *("ant", "bundle", "cargo", "composer", "direnv", "eslint", "go", "gradle", "gulp", "invoke", "jest", "just"),
        *("make", "gmake", "mix", "mvn", "nox", "npm", "npx", "pnpm", "poetry", "pre-commit", "prettier", "pytest"),
        *("rake", "task", "tox", "tsc", "uv", "vitest", "yarn"),
    }
)
OWN_WAYS = (" -I", "prevents it")  # the ends of dangers that name a remedy of their own
PYTHON = re.compile(r"(?:python|pypy)(\d+)?(?:\.(\d+))?")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# Other names of the session's folder.
SESSIONS = re.compile(r"\$\{?(?:PWD|HOOKLATCH_CWD|CLAUDE_PROJECT_DIR)\}?(?:/|$)")


def find_dangers(shell: ShellCommand, *, is_of_project: bool = False) -> tuple[str, ...]:
    """Return the dangers of a shell hook, each as a sentence with its remedy.

    A hook `is_of_project` if its file is in the project, since an agent can also write the files beside it.
    """
    is_anchored = not shell.is_of_another_system and not is_of_project
    is_elsewhere = shell.cwd is not None and shell.cwd.startswith("/")
    if is_elsewhere or (shell.run_in == "file" and not is_of_project):
        return ()
    if shell.command is not None:
        dangers = find_text_dangers(shell.command, is_other=shell.is_of_another_system)
    else:
        words = list(shell.argv or ())
        # The first word of our own hooks is looked for beside the declaring file.
        dangers = find_command_dangers(words, is_other=shell.is_of_another_system, is_anchored=is_anchored)
    remedy = 'write an absolute path, or run_in = "file"' if is_anchored else "write an absolute path"
    texts = dict.fromkeys(dangers)
    return tuple(
        text if text.endswith(OWN_WAYS) else f"{text}, and an agent can write there; {remedy}" for text in texts
    )


def find_text_dangers(text: str, *, is_other: bool) -> Iterator[str]:
    """Yield the dangers of a shell's text."""
    try:
        commands = list(split_commands(text))
    except UnreadableCommandError as error:
        yield f"its text cannot be read ({error}), so that it may run what is in the folder in which the agent works"
        return
    for words in commands:
        if words[:1] == ["cd"] and words[1:] and not is_sessions(words[-1]):
            return  # later paths are relative to another folder
        yield from find_command_dangers(words, is_other=is_other)


def split_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a text, with its assignments; substitutions come first.

    Raises:
        UnreadableCommandError: the text cannot be parsed.
    """
    for node in list_simple_commands(parse_script(text, COMMON)):
        values = (
            f"{assignment.name}={''.join(map(format_shell_word, assignment.values))}" for assignment in node.assignments
        )
        words = [*values, *map(format_shell_word, node.words)]
        if words:
            yield words


def format_shell_word(word: ShellWord | str) -> str:
    """Return a word without its quotes; a substitution begins with a dollar sign, since its value is unknown."""
    if isinstance(word, str):
        return word
    return "".join(f"${piece.text}" if piece.text.startswith("`") else piece.text for piece in word.pieces)


def find_command_dangers(given: Sequence[str], *, is_other: bool, is_anchored: bool = False) -> Iterator[str]:
    """Yield the dangers of one command; `is_anchored` says that a relative first word is a path that no agent chose."""
    words = list(given)
    while words and (ASSIGNMENT.match(words[0]) or find_word_name(words[0]) in WRAPPERS):
        if words[0].startswith("PATH=") and not all(map(is_absolute, words[0][5:].split(":"))):
            yield f"{words[0]!r} has a relative entry, so that programs of the folder in which the agent works may run"
        is_wrapper = not ASSIGNMENT.match(words.pop(0))
        is_anchored = False
        while is_wrapper and words and (words[0].startswith("-") or words[0][:1].isdigit()):
            words.pop(0)
    if words[:1] == ["export"]:
        yield from find_command_dangers(words[1:], is_other=is_other)
        return
    if not words:
        return
    first, arguments = words[0], words[1:]
    if "/" in first and is_sessions(first) and not is_anchored:
        yield f"it runs {first!r} of the folder in which the agent works"
    name = find_word_name(first)
    if first in (".", "source"):
        yield from (
            f"it reads {word!r} of the folder in which the agent works" for word in arguments[:1] if is_sessions(word)
        )
    elif name == "git" and is_other:
        yield 'git runs what the settings of the repository name (core.fsmonitor); payload = "canonical" prevents it'
    elif name in PROJECT_RUNNERS:
        yield f"{name} runs commands from files of the folder in which the agent works"
    elif (python := PYTHON.fullmatch(name)) is not None or name in INTERPRETERS:
        yield from find_interpreter_dangers("python" if python is not None else name, arguments, is_other=is_other)
        if python is not None and is_older(python[1], python[2]) and not is_isolated(arguments):
            yield f"{name} is older than 3.11 and imports from the folder in which the agent works; write {name} -I"


def find_interpreter_dangers(name: str, words: Sequence[str], *, is_other: bool) -> Iterator[str]:
    remaining = iter(words)
    for word in remaining:
        if name in SHELLS and word.startswith("-") and "c" in word[1:] and not word.startswith("--"):
            yield from (part for text in [next(remaining, "")] for part in find_text_dangers(text, is_other=is_other))
            return
        option = next(
            (known for known in LOADING if word == known or (word.startswith(known) and len(known) == 2)), None
        )
        if option is not None and name != "python":
            path = word[len(option) :].lstrip("=") or next(remaining, "")
            if is_sessions(path) and (option == "-I" or "/" in path):
                yield f"{name} {option} {path} loads code from the folder in which the agent works"
        elif word in INLINE or (word == "-" and name == "python"):
            if is_other and name == "python" and not is_isolated(words):
                yield "python imports from the folder in which the agent works; write python3 -I"
            return
        elif not word.startswith("-"):
            if word not in ("run", "test") and is_sessions(word):
                yield f"{name} runs {word!r} of the folder in which the agent works"
            return


def find_word_name(word: str) -> str:
    return word.rpartition("/")[2]


def is_absolute(word: str) -> bool:
    return word.startswith(("/", "~", "$"))


def is_sessions(word: str) -> bool:
    """Return whether a path is below the folder in which the agent works."""
    return not is_absolute(word) or SESSIONS.match(word) is not None


def is_older(major: str | None, minor: str | None) -> bool:
    """Return whether a Python of this name is too old for PYTHONSAFEPATH, which is new in 3.11."""
    return major == "2" or (major == "3" and minor is not None and int(minor) < 11)


def is_isolated(options: Iterable[str]) -> bool:
    return any(word.startswith("-") and not word.startswith("--") and set("IP") & set(word) for word in options)
