"""What a command runs besides itself, by its words: the commands after sudo or xargs, the texts after bash -c or eval.

Knows the tables of programs and words; parses no shell text.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

from hooklatch.guards.programs import (
    JOINED,
    KEYWORDS,
    PROMPTS,
    READERS,
    RUNNERS,
    SCRIPTED,
    SHELL_VALUED,
    SHELLS,
    TEXTS,
    VARIABLES,
    WRAPPERS,
    Wrapper,
)
from hooklatch.guards.words import Word, read_words

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "after_options",
    "folder_told",
    "git_verb",
    "inner_words",
    "name_of",
    "option_values",
    "printed_by",
    "replaced_by_xargs",
    "script_in_variable",
    "scripts_of",
    "takes_next",
]

PRINTING = frozenset({"echo", "printf"})
EXECUTING = {
    "find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}),
    "fd": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
    "fdfind": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
}
PLAIN = re.compile(r"[\w./=:@%+,{}-]+")  # a word that means to a shell what it says
STDIN = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
GIT = Wrapper(
    frozenset(
        {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source", "--super-prefix"}
    )
)
# Settings of git whose value is a command; a name ends with one of these.
RUN_BY_GIT = (
    "pager", "sshcommand", "editor", "fsmonitor", "askpass", "external", ".cmd", ".textconv", ".clean", ".smudge",
    ".process", ".driver", ".helper", "gitproxy", "packobjectshook",
)  # fmt: skip
OF_SSH = re.compile(r"(?i)\s*(?:proxy|local|knownhosts)command[\s=]+")  # settings of ssh that are commands
CRON = re.compile(
    r"(?m)^[ \t]*(?:@\w+|(?:[^\s#=]+[ \t]+){4}[^\s#=]+)[ \t]+(.+)$"
)  # a line of a crontab: times, and the command
IN_FOLDER = {"env": frozenset({"-C", "--chdir"}), "sudo": frozenset({"-D", "--chdir"})}


def name_of(word: Word) -> str | None:
    """Return a program's name without its folder; None if it is decided only when it runs."""
    if not word.is_known or any(one in word.text for one in "*?["):
        return None
    return word.text.rpartition("/")[2].lstrip("=")  # to zsh =rm is the path of rm


def inner_words(name: str, words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the commands that a program is told to run by words."""
    if (
        name == "coproc" and len(words) > 1 and words[1].text.partition(" ")[0] in KEYWORDS
    ):  # a name may stand before a group
        yield words[1:]
    elif name == "parallel":
        template, values = parallel_parts(words)
        if values is None and template and all(map(PLAIN.fullmatch, (word.text for word in template))):
            yield template
    elif (told := WRAPPERS.get(name)) is not None:
        yield after_options(words, told)
    elif (verbs := RUNNERS.get(name)) is not None:
        rest = after_options(words, Wrapper())
        if rest and rest[0].text in verbs:
            yield from after_any_options(rest[1:])
    elif name == "git":
        verb, rest = git_verb(words)
        if verb == "bisect" and rest and rest[0].text == "run":
            yield rest[1:]
    elif (executing := EXECUTING.get(name)) is not None:
        for at, word in enumerate(words):
            if word.text in executing:
                yield until_end(words[at + 1 :])


def until_end(words: Sequence[Word]) -> list[Word]:
    found: list[Word] = []
    for word in words:
        if word.text == ";" or (word.text == "+" and found and found[-1].text == "{}"):
            break
        found.append(Word(word.text, word.is_known and "{}" not in word.text))
    return found


def after_options(words: Sequence[Word], told: Wrapper) -> Sequence[Word]:
    """Return what follows the options of a program that runs others."""
    at = skip_options(words, told)
    if told.before:
        at = min(at + told.before, len(words))
        at += skip_options(words[at:], told)  # ssh takes its own behind the host, too
    return words[at:]


def after_any_options(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield what may follow the options of a program of which nobody knows which ones take a value."""
    for at, word in enumerate(words):
        if word.text == "--":
            yield words[at + 1 :]
            return
        if not word.text.startswith("-"):
            yield words[at:]
            if not at or not words[at - 1].text.startswith("-"):
                return


def takes_next(text: str, valued: Container[str]) -> bool:
    """Return whether an option takes the next word: -u does, and so does -nu; -un has its value already."""
    if text in valued:
        return True
    if text[:1] not in ("-", "+") or text.startswith("--"):
        return False
    return next((at for at in range(1, len(text)) if text[0] + text[at] in valued), 0) == len(text) - 1 > 0


def skip_options(words: Sequence[Word], told: Wrapper) -> int:
    at = 0
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            while told.assigns and at < len(words) and "=" in words[at].text:
                at += 1
            return at
        if told.assigns and "=" in text and not text.startswith("-"):
            at += 1
        elif text.startswith("-") and (len(text) > 1 or told.assigns):  # `env -` is `env -i`
            at += 2 if takes_next(text, told.valued | told.script) else 1
        else:
            return at
    return at


def git_verb(words: Sequence[Word]) -> tuple[str, Sequence[Word]]:
    rest = after_options(words, GIT)
    return (rest[0].text, rest[1:]) if rest else ("", ())


def git_scripts(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the shell texts that git runs: aliases with "!", --exec, submodule foreach, filters."""
    verb, rest = git_verb(words)
    for setting in option_values(words[: len(words) - len(rest)], frozenset({"-c"})):
        key, _, value = setting.text.partition("=")
        yield from script_in_setting(key, Word(value, setting.is_known))
    yield from (
        Word(word.text[5:].replace("% ", "\\ "), word.is_known) for word in rest if word.text.startswith("ext::")
    )
    match verb:
        case "config":
            for setting, said in itertools.pairwise(rest):
                yield from script_in_setting(setting.text, said)
        case "grep":
            yield from option_values(rest, frozenset({"-O", "--open-files-in-pager"}))
        case "difftool" | "mergetool":
            yield from option_values(rest, frozenset({"-x", "--extcmd"}))
        case "send-email":
            yield from option_values(rest, frozenset({"--sendmail-cmd", "--to-cmd", "--cc-cmd", "--header-cmd"}))
        case "rebase":
            yield from option_values(rest, frozenset({"-x", "--exec"}))
        case "filter-branch":
            yield from (
                value
                for name in ("env", "tree", "index", "parent", "msg", "commit", "tag-name")
                for value in option_values(rest, frozenset({f"--{name}-filter"}))
            )
        case "submodule" if rest and rest[0].text == "foreach":
            inner = after_options(rest[1:], Wrapper())
            yield Word(" ".join(word.text for word in inner), all(word.is_known for word in inner))
        case "fetch" | "pull" | "push" | "clone" | "ls-remote" | "archive":
            yield from option_values(rest, frozenset({"--upload-pack", "--receive-pack", "--exec"}))
            if verb == "clone":
                yield from option_values(rest, frozenset({"-u"}))
                for setting in option_values(rest, frozenset({"-c", "--config"})):
                    key, _, value = setting.text.partition("=")
                    yield from script_in_setting(key, Word(value, setting.is_known))
        case _:
            pass


def script_in_setting(key: str, value: Word) -> Iterator[Word]:
    """Yield the shell text that a setting of git is, if it is one."""
    key, text = key.lower(), value.text
    if key.startswith("alias."):
        yield Word(text[1:] if text.startswith("!") else f"git {text}", value.is_known)
    elif key.endswith(RUN_BY_GIT) and not key.startswith("color."):
        yield Word(text.removeprefix("!"), value.is_known)


def script_in_variable(text: str, *, is_known: bool = True) -> Word | None:
    """Return the shell text in `NAME=text`, if programs run what the variable of this name says."""
    name, equals, value = text.partition("=")
    is_run = name in VARIABLES or (name in PROMPTS and ("$(" in value or "`" in value))
    return Word(value, is_known) if equals and is_run and value else None


def scripts_of(name: str, words: Sequence[Word], given: str | None, fed_by: str | None) -> Iterator[Word]:
    """Yield the shell texts that a program is told to run; `given` is what it reads, if that is known."""
    if name == "git":
        yield from git_scripts(words)
    elif name in TEXTS:
        yield from (word for word in words if " " in word.text)
    told = WRAPPERS.get(name) or SCRIPTED.get(name)
    if told is not None and told.script:
        for value in option_values(words, told.script):
            text = value.text.removeprefix("exec=") if name == "tar" else value.text  # --checkpoint-action=exec=…
            yield Word(text, value.is_known)
    if name in ("ssh", "scp", "sftp", "ssh-copy-id"):
        for value in option_values(words, frozenset({"-o"})):
            if (found := OF_SSH.match(value.text)) is not None and value.text[found.end() :].lower() != "none":
                yield Word(value.text[found.end() :], value.is_known)
    if name in ("env", "sudo", "doas"):
        for word in words:
            if (script := script_in_variable(word.text, is_known=word.is_known)) is not None:
                yield script
    if name == "crontab" and (given or fed_by) and not any(word.text not in ("-", "-u") for word in words):
        yield from [Word("what it reads", False)] if given is None else map(Word, CRON.findall(given))
    if name == "parallel":
        yield from parallel_scripts(words, given, fed_by)
    elif (joined := JOINED.get(name)) is not None:
        rest = after_options(words, joined)
        if rest:
            yield Word(" ".join(word.text for word in rest), all(word.is_known for word in rest))
    if name == "trap" and words:
        action = words[1:] if words[0].text == "--" else words
        if len(action) > 1 and action[0].text != "-":
            yield action[0]
    if name == "alias":
        for word in words:
            if "=" in word.text:
                yield Word(word.text.partition("=")[2], word.is_known)
    if name in SHELLS:
        yield from shell_scripts(words, given, fed_by)
    elif name in ("source", ".") and words and words[0].text.startswith("<("):
        yield words[0]
    elif (fed_by and reads_as_shell(name, words)) or (
        (name in READERS or (name in ("source", ".") and words and words[0].text in STDIN)) and (given or fed_by)
    ):
        yield Word("what it reads", False) if given is None else Word(given)


def parallel_parts(words: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word] | None]:
    """Return the words that parallel runs, and the values for each run; None if it reads those."""
    rest = after_options(words, JOINED["parallel"])
    at = next((at for at, word in enumerate(rest) if word.text.startswith(":::")), None)
    return (rest, None) if at is None else (rest[:at], rest[at + 1 :])


def parallel_scripts(words: Sequence[Word], given: str | None, fed_by: str | None) -> Iterator[Word]:
    template, values = parallel_parts(words)
    text, is_known = " ".join(word.text for word in template), all(word.is_known for word in template)
    for value in values or ():
        last = shlex.quote(value.text) if text else value.text
        whole = text.replace("{}", last) if "{}" in text else f"{text} {last}"
        yield Word(whole, is_known and value.is_known)
    if values is None and text and not all(map(PLAIN.fullmatch, (word.text for word in template))):
        yield Word(text, is_known)
    elif values is None and not text and (given or fed_by):
        yield Word("what it reads", False) if given is None else Word(given)


def replaced_by_xargs(words: Sequence[Word]) -> str | None:
    """Return what xargs replaces in its words by what it reads; None if it puts that behind them."""
    own = words[: skip_options(words, WRAPPERS["xargs"])]
    named = next(option_values(own, frozenset({"-I", "-J"})), None)
    if named is not None:
        return named.text
    short = [re.fullmatch(r"(?:-[a-zA-Z0-9]*?i|--replace=?)(.*)", word.text) for word in own]
    return next((one[1] or "{}" for one in short if one is not None), None)


def reads_as_shell(name: str, words: Sequence[Word]) -> bool:
    """Return whether a program starts a shell that runs what it reads: ssh and su without a command, sudo -s."""
    if name == "ssh":
        rest = after_options(words, JOINED["ssh"])
        return not rest or name_of(rest[0]) in SHELLS
    if name == "su":
        return not any(True for _ in option_values(words, SCRIPTED["su"].script))
    own = words[: skip_options(words, WRAPPERS[name])] if name in ("sudo", "doas") else ()
    return len(own) == len(words) and any(
        word.text in ("--shell", "--login") or re.fullmatch(r"-[A-Za-z]*[si]", word.text) for word in own
    )


def option_values(words: Sequence[Word], names: frozenset[str]) -> Iterator[Word]:
    for at, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if word.text in names and at + 1 < len(words):
            yield words[at + 1]
        elif equals and name in names:
            yield Word(value, word.is_known)
        elif (letters := re.match(r"-[A-Za-z0-9]+", word.text)) is not None:
            at_letter = next((one for one in range(1, letters.end()) if f"-{word.text[one]}" in names), 0)
            if at_letter and at_letter + 1 < len(word.text):  # -crm and -Srm
                yield Word(word.text[at_letter + 1 :], word.is_known)
            elif at_letter and at + 1 < len(words):  # -qc rm
                yield words[at + 1]


def shell_scripts(words: Sequence[Word], given: str | None, fed_by: str | None) -> Iterator[Word]:
    """Yield what a shell is told to run: after -c, or else what it reads; unknown if it reads what is not known."""
    is_told = False
    yield from option_values(words, frozenset({"--command", "--init-command"}))  # of fish
    files = option_values(words, frozenset({"--rcfile", "--init-file"}))
    yield from (file for file in files if file.text.startswith("<("))
    for at, word in enumerate(words):
        text = word.text
        if at and takes_next(words[at - 1].text, SHELL_VALUED):
            continue
        if text in STDIN:
            break
        if text == "--" or not text.startswith(("-", "+")):
            is_told = True
            if (file := next(iter(words[at + (text == "--") :]), None)) and file.text.startswith("<("):
                yield file  # what another command prints
            break
        if text.startswith("-") and not text.startswith("--") and "c" in text:
            rest = list(words[at + 1 + sum(map(text.count, "oO")) :])
            while rest and rest[0].text.startswith(("-", "+")) and len(rest[0].text) > 1:
                rest = rest[2 if takes_next(rest[0].text, SHELL_VALUED) else 1 :]
            if rest:
                yield rest[0]
            return
        if text in ("-s", "-"):
            break
    if not is_told and (given is not None or fed_by is not None):
        yield Word("what it reads", False) if given is None else Word(given)


def printed_by(node: Node) -> str | None:
    """Return what echo or printf with known words would print, for the shell that reads it; None if that is unknown."""
    if node.type != "command":
        return None
    words = [word for child in node.named_children if child.type != "variable_assignment" for word in read_words(child)]
    if not words or name_of(words[0]) not in PRINTING or not all(word.is_known for word in words):
        return None
    texts = [word.text for word in words[1:]]
    if any("\\" in text.replace("\\n", "") or "%" in text.replace("%s", "") for text in texts):
        return None  # octal and the like
    while name_of(words[0]) == "echo" and texts and texts[0] in ("-n", "-e", "-E", "-ne", "-en"):
        texts = texts[1:]
    return " ".join(texts).replace("\\n", "\n").replace("%s", "")


def folder_told(name: str, words: Sequence[Word]) -> Word | None:
    """Return the folder in which a program is told to run another one, None if in its own."""
    if name not in IN_FOLDER:
        return None
    return next(option_values(words[: skip_options(words, WRAPPERS[name])], IN_FOLDER[name]), None)
