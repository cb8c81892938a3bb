"""The shell texts that a command runs, by its words or its input: bash -c, eval, trap, ssh, and what a shell reads.

Knows the tables of programs, and options of shells; parses no shell text.
"""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from hooklatch.shelltext.grammar.commands import DECLARING
from hooklatch.shelltext.grammar.languages import BASH, BASH_POSIX, COMMON, LANGUAGES, ShellLanguage
from hooklatch.shelltext.option_reader import list_option_values
from hooklatch.shelltext.reading.builtins import ASSIGNING
from hooklatch.shelltext.reading.codes import list_code_scripts
from hooklatch.shelltext.reading.flows import InputFlow, is_input, make_input_word
from hooklatch.shelltext.reading.inner import PLAIN, name_of, split_git_verb, split_parallel
from hooklatch.shelltext.reading.options import find_command_starts, skip_options, skip_to_operands
from hooklatch.shelltext.reading.programs import (
    AWKS,
    FOR_FILES,
    JOINED,
    LOGIN,
    MAKES,
    PROMPTS,
    READERS,
    SCRIPTED,
    SCRIPTED_VERBS,
    SHELLS,
    TEXTS,
    VARIABLES,
    WRAPPERS,
    RunnerOptions,
)
from hooklatch.shelltext.reading.sed import SEDS, is_stdin, list_sed_scripts, read_sed
from hooklatch.shelltext.reading.unknown import list_possible_scripts
from hooklatch.shelltext.words import Word

__all__ = ["find_script_language", "read_variable_script", "list_scripts"]

# Settings of git whose value is a command; a name ends with one of these.
RUN_BY_GIT = (
    "pager", "sshcommand", "editor", "fsmonitor", "askpass", "external", ".cmd", ".textconv", ".clean", ".smudge",
    ".process", ".driver", ".helper", "gitproxy", "packobjectshook",
)  # fmt: skip
OF_SSH = re.compile(r"(?i)\s*(?:proxy|local|knownhosts)command[\s=]+")  # settings of ssh that are commands
OF_HG = re.compile(
    r"(?i)alias\.|hooks\.|extdiff\.|pager\.pager|ui\.(?:editor|ssh|merge)|merge-tools\."
)  # that are commands
OF_EXT = re.compile(r"(?s)\A(?:--[\w-]+=)?ext::(.*)")  # an address of git that is a command
OF_SOCAT = re.compile(
    r"(?is)(?:\A|!!)\s*(?:exec|system|shell):\s*['\"]?([^,'\"]+)"
)  # an address that is a command, and its options
CRON = re.compile(
    r"(?m)^[ \t]*(?:@\w+|(?:[^\s#=]+[ \t]+){4}[^\s#=]+)[ \t]+(.+)$"
)  # a line of a crontab: times, and the command
# Letters of options of shells, and long ones, that do not change what the text is; `o` and `O` take the next word.
LETTERS = re.compile(r"[-+][abefhiklmnpruvxBCEHPTsoOc]+")
LONG = frozenset({
    "--norc", "--noprofile", "--login", "--posix", "--restricted", "--noediting", "--verbose", "--version", "--help",
})  # fmt: skip
ONE_DASH = re.compile(r"-(?:norc|noprofile|posix|init-file|rcfile|noediting|restricted|verbose|version|help)")
SET_BY_O = frozenset(
    {"pipefail", "errexit", "nounset", "xtrace", "posix", "globstar", "nullglob", "noclobber", "extglob", "e", "u"}
)
A_FILE = re.compile(r"(?s)[^-].*/[\w.@+-]+")  # with a known name at its end
# How statements of databases and editors tell them to run a shell text.
ESCAPES = {
    **dict.fromkeys(("psql", "ed", "ex"), re.compile(r"(?m)(?:^|[;\\og| ])\s*\\?!\s*(.+)$")),
    **dict.fromkeys(("mysql", "mariadb"), re.compile(r"(?m)(?:^|;)\s*(?:\\!|system\s)\s*(.+)$")),
    **dict.fromkeys(("ftp", "sftp", "lftp", "dc"), re.compile(r"(?m)^[-@\s]*!\s*(.+)$")),
    **dict.fromkeys(("sqlite3", "duckdb"), re.compile(r"(?m)^\s*\.(?:shell|system)\s+(.+)$")),
}
MADE_OF = frozenset({"-f", "--file", "--makefile"})
RECIPE = re.compile(r"(?m)^(?:\t|[^#\n]*?:[^=\n]*?;)[ \t]*[-@+]*(.+)$")
VARIABLE_OF_MAKE = re.compile(r"(?<!\$)\$[({](\w+)[)}]")
OTHERS = frozenset({"fish", "csh", "tcsh"})  # shells with languages of their own


def find_script_language(name: str, words: Sequence[Word]) -> ShellLanguage | None:
    """Return the language of what a program runs; None if guards do not read it."""
    if name in OTHERS:
        return None
    if name == "bash" and any(word.text in ("--posix", "posix") for word in words):
        return BASH_POSIX
    return BASH if name in LOGIN else LANGUAGES.get(name, COMMON)


def list_scripts(name: str, words: Sequence[Word], flow: InputFlow) -> Iterator[Word]:
    """Yield the shell texts that a program is told to run; `flow` is what reaches it."""
    given, fed_by = flow.given, flow.fed_by
    if name == "git":
        yield from list_git_scripts(words)
    elif name in TEXTS:
        yield from (
            word._replace(text=word.text.replace("\\n", "\n")) for word in words if " " in word.text
        )  # as typed
    wrapper = WRAPPERS.get(name) or SCRIPTED.get(name)
    if wrapper is not None and wrapper.script:
        for value in list_option_values(words, wrapper.script):
            text = value.text.removeprefix("exec=") if name == "tar" else value.text  # --checkpoint-action=exec=…
            yield Word(text, value.is_known)
    verbs, options = SCRIPTED_VERBS.get(name, (frozenset[str](), frozenset[str]()))
    if any(word.text in verbs for word in words):
        yield from list_option_values(words, options)
    if name in ("ssh", "scp", "sftp", "ssh-copy-id"):
        for value in list_option_values(words, frozenset({"-o"})):
            if (found := OF_SSH.match(value.text)) is not None and value.text[found.end() :].lower() != "none":
                yield Word(value.text[found.end() :], value.is_known)
    yield from list_possible_scripts(name, words)
    if name in ASSIGNING or name in DECLARING:
        for word in words:
            if (script := read_variable_script(word.text, is_known=word.is_known)) is not None:
                yield script
    if name == "crontab" and (given or fed_by) and not any(word.text not in ("-", "-u") for word in words):
        yield from (
            (Word(line) for line in CRON.findall(given.text)) if given and given.is_known else [make_input_word(flow)]
        )
    if name == "hg":
        for value in list_option_values(words, frozenset({"--config"})):
            key, _, text = value.text.partition("=")
            if OF_HG.match(key):
                yield Word(text.removeprefix("!"), value.is_known)
    yield from list_kept_scripts(name, words)
    if name == "parallel":
        yield from list_parallel_scripts(words, flow)
    elif (joined := JOINED.get(name)) is not None:
        begins, is_lost = find_command_starts(words, joined)
        rest = words[begins[0] :]
        if rest:
            yield Word(" ".join(word.text for word in rest), not is_lost and all(word.is_known for word in rest))
    if name == "trap" and words:
        action = words[1:] if words[0].text == "--" else words
        if len(action) > 1 and action[0].text != "-":
            yield action[0]
    if name == "alias":
        for word in words:
            if "=" in word.text:
                yield Word(word.text.partition("=")[2], word.is_known)
    if (escape := ESCAPES.get(name)) is not None:
        texts = [*words, *([given] if given is not None else [])]
        yield from (Word(text, word.is_known) for word in texts for text in escape.findall(word.text))
    if name in FOR_FILES:
        values = list_option_values(words, FOR_FILES[name])
        yield from (Word(f'{value.text} "$file"', value.is_known) for value in values)
    if name in ("nc", "netcat"):  # of which some have another `-c`, without a value
        values = list_option_values(words, frozenset({"-c"}))
        yield from (value for value in values if " " in value.text or name_of(value) in SHELLS)
    if name == "socat":
        yield from (Word(text, word.is_known) for word in words for text in OF_SOCAT.findall(word.text))
    if name in SEDS:
        yield from list_sed_scripts(words)
    if name in MAKES or name in AWKS or name in SEDS:
        files = list(list_option_values(words, MADE_OF))
        yield from (Word(file.text, False) for file in files if file.text.startswith("<("))
        is_told = any(map(is_stdin, files))
        if (is_told or (not words and name not in SEDS)) and fed_by:
            yield from [make_input_word(flow)] if given is None or not given.is_known else run_in(name, given.text)
        elif name in AWKS:
            yield from (text for word in words for text in run_in(name, word.text))
    if name in SHELLS:
        yield from list_shell_scripts(name, words, flow)
    elif name in ("source", "."):
        if words and (words[0].text.startswith("<(") or (words[0].is_known and is_input(words[0].text))):
            yield words[0] if words[0].text.startswith("<(") else make_input_word(flow)
    elif (fed_by and is_reading_shell(name, words)) or (name in READERS and fed_by):
        yield make_input_word(flow)


def run_in(name: str, text: str) -> Sequence[Word]:
    """Return the shell texts in a makefile, or in a program of awk or sed."""
    if name in SEDS:
        return read_sed(text).runs
    if name in AWKS:
        return list(list_code_scripts(name, text))
    return [Word(VARIABLE_OF_MAKE.sub(r"${\1}", line).replace("$$", "$")) for line in RECIPE.findall(text)]


def list_shell_scripts(name: str, words: Sequence[Word], flow: InputFlow) -> Iterator[Word]:
    """Yield what a shell is told to run: after -c, or else what it reads, since that may not be empty."""
    if name in OTHERS:
        values = list(list_option_values(words, frozenset({"-c", "--command", "--init-command", "-C"})))
        has_file = any(not word.text.startswith("-") for word in words) and not values
        yield from values or ([] if has_file and all(word.is_known for word in words) else [make_input_word(flow)])
        return
    unknown = Word(" ".join((name, *(word.text for word in words))), False)
    has_text = reads = False
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text
        if not word.is_known and (not word.is_one or has_text or not is_file(text)):
            yield unknown
            if flow.given is not None:
                yield Word(flow.given.text, False)
            yield from (other for other in words[at + 1 :] if other.is_known and " " in other.text)  # it may be `-c`
            return
        if text in ("-", "--"):
            at += 1
            break
        if text[:1] not in ("-", "+") or len(text) < 2:
            break
        if text.startswith("--"):
            at += 1
            if text.partition("=")[0] in ("--rcfile", "--init-file"):
                if at < len(words) and words[at].text.startswith("<("):
                    yield words[at]
                at += "=" not in text
            elif text not in LONG:
                yield unknown
                return
            continue
        if LETTERS.fullmatch(text) is None or ONE_DASH.fullmatch(text) or (text[0] == "+" and "c" in text):
            yield unknown
            return
        has_text, reads = has_text or "c" in text, reads or "s" in text
        taken = sum(map(text.count, "oO"))
        if any(not value.is_known or value.text not in SET_BY_O for value in words[at + 1 : at + 1 + taken]):
            yield unknown
            return
        if "i" in text and any("!" in value.text for value in words):  # it may stand for an earlier command
            yield unknown
            return
        at += 1 + taken
    rest = words[at:]
    if has_text:
        yield rest[0] if rest else make_input_word(flow)
    elif reads or not rest or (rest[0].is_known and is_input(rest[0].text)):
        yield make_input_word(flow)
    elif not rest[0].is_known and (not is_file(rest[0].text) or not rest[0].is_one):
        yield unknown if not rest[0].text.startswith("<(") else rest[0]


def is_file(text: str) -> bool:
    """Return whether a word that is not known yet can only be a file's name: no option has a slash."""
    return A_FILE.fullmatch(text) is not None and not is_input(posixpath.basename(text))


def list_git_scripts(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the shell texts that git runs: aliases with "!", --exec, submodule foreach, filters."""
    verb, rest = split_git_verb(words)
    yield from list_setting_scripts(list_option_values(words[: len(words) - len(rest)], frozenset({"-c"})))
    yield from (Word(text.replace("% ", "\\ "), word.is_known) for word in rest for text in OF_EXT.findall(word.text))
    match verb:
        case "config":
            for setting, value in itertools.pairwise(rest):
                yield from list_setting_script(setting.text, value)
        case "grep":
            yield from list_option_values(rest, frozenset({"-O", "--open-files-in-pager"}))
        case "difftool" | "mergetool":
            yield from list_option_values(rest, frozenset({"-x", "--extcmd"}))
        case "send-email":
            yield from list_option_values(rest, frozenset({"--sendmail-cmd", "--to-cmd", "--cc-cmd", "--header-cmd"}))
        case "rebase":
            yield from list_option_values(rest, frozenset({"-x", "--exec"}))
        case "filter-branch":
            yield from (
                value
                for name in ("env", "tree", "index", "parent", "msg", "commit", "tag-name")
                for value in list_option_values(rest, frozenset({f"--{name}-filter"}))
            )
        case "submodule" if (operands := skip_to_operands(rest, RunnerOptions())) and operands[0].text == "foreach":
            inner = skip_to_operands(operands[1:], RunnerOptions())
            yield Word(" ".join(word.text for word in inner), all(word.is_known for word in inner))
        case "fetch" | "pull" | "push" | "clone" | "ls-remote" | "archive":
            yield from list_option_values(rest, frozenset({"--upload-pack", "--receive-pack", "--exec"}))
            if verb == "clone":
                yield from list_option_values(rest, frozenset({"-u"}))
                yield from list_setting_scripts(list_option_values(rest, frozenset({"-c", "--config"})))
        case _:
            pass


def list_setting_scripts(settings: Iterable[Word]) -> Iterator[Word]:
    """Yield the shell texts in settings that are given as `key=value`."""
    for setting in settings:
        key, _, value = setting.text.partition("=")
        yield from list_setting_script(key, Word(value, setting.is_known))


def list_setting_script(key: str, value: Word) -> Iterator[Word]:
    """Yield the shell text that a setting of git is, if it is one."""
    key, text = key.lower(), value.text
    if key.startswith("alias."):
        yield Word(text[1:] if text.startswith("!") else f"git {text}", value.is_known)
    elif text.startswith("!") or (key.endswith(RUN_BY_GIT) and not key.startswith("color.")):  # submodule.x.update
        yield Word(text.removeprefix("!"), value.is_known)


def read_variable_script(text: str, *, is_known: bool = True) -> Word | None:
    """Return the shell text in `NAME=text`, if programs run what the variable of this name says."""
    name, equals, value = text.partition("=")
    is_run = name in VARIABLES or (name in PROMPTS and ("$(" in value or "`" in value))
    return Word(value.lstrip("|-"), is_known) if equals and is_run and value else None  # LESSOPEN='||-less %s'


def list_kept_scripts(name: str, words: Sequence[Word]) -> Iterator[Word]:
    """Yield the shell texts that a program keeps under a name, to be run by that: gh alias set, npm pkg set."""
    verbs = [word.text for word in words[:2]]
    if name == "gh" and verbs == ["alias", "set"]:
        yield from (Word(word.text.removeprefix("!"), word.is_known) for word in words[3:] if word.text[:1] != "-")
    elif name in ("npm", "pnpm", "yarn") and verbs == ["pkg", "set"]:
        for word in words[2:]:
            if word.text.startswith("scripts."):
                yield Word(word.text.partition("=")[2], word.is_known)


def list_parallel_scripts(words: Sequence[Word], flow: InputFlow) -> Iterator[Word]:
    template, values = split_parallel(words)
    text, is_known = " ".join(word.text for word in template), all(word.is_known for word in template)
    for value in values or ():
        last = shlex.quote(value.text) if text else value.text
        whole = text.replace("{}", last) if "{}" in text else f"{text} {last}"
        yield Word(whole, is_known and value.is_known)
    if values is None and text and not all(map(PLAIN.fullmatch, (word.text for word in template))):
        yield Word(text, is_known)
    elif values is None and not text and flow.fed_by:
        yield make_input_word(flow)


def is_reading_shell(name: str, words: Sequence[Word]) -> bool:
    """Return whether a program starts a shell that runs what it reads: ssh and su without a command, sudo -s."""
    if name == "ssh":
        rest = skip_to_operands(words, JOINED["ssh"])
        return not rest or name_of(rest[0]) in SHELLS
    if name == "su":
        return not any(True for _ in list_option_values(words, SCRIPTED["su"].script))
    own = words[: skip_options(words, WRAPPERS[name])] if name in ("sudo", "doas") else ()
    return len(own) == len(words) and any(
        word.text in ("--shell", "--login") or re.fullmatch(r"-[A-Za-z]*[si]", word.text) for word in own
    )
