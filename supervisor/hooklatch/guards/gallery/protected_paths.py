"""Refuse to change files that an agent has no business with, and to switch guards off.

This file is yours: change the lists.  A path is compared as it is and with all links followed, those that the same
command makes too, and other names of the same file (hard links).  Capitals and small letters count as the same, since
there are file systems to which they are; letters that only look alike do not, since no file system takes them so.
"""

from __future__ import annotations

import fnmatch
import functools
import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from hooklatch import ask, deny, hook
from hooklatch.guards import Command, UnreadableCommandError, Word, call_of, commands, paths_written, strictest
from hooklatch.guards.interpreters import paths_in_code
from hooklatch.guards.paths import (
    HOMES,
    STREAMS,
    PathResolver,
    PlacedPath,
    find_file_identity,
    find_own_home,
    is_match,
    split_parts,
)
from hooklatch.guards.paths.finding import may_find, names_told
from hooklatch.guards.paths.patterns import is_wide, may_be, may_match
from hooklatch.shelltext.words import GLOB

# Globs of tools that this guard passes, such as "mcp__notes__*".  Hosts' own tools that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()
# Globs; `~` is any home, `*/` at the begin any folder, and one without a slash is compared with each part of the path.
PROTECTED = (
    ".git", ".env", "*.env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".npmrc", ".pypirc", ".netrc",
    ".hooklatch",
    "~/.ssh/*", "~/.aws/*", "~/.gnupg/*", "~/.kube/*", "~/.config/gcloud/*", "~/.docker/*", "~/.config/hooklatch/*",
    "~/.azure/*", "~/.config/gh/*", "~/.git-credentials", "~/.pgpass", "~/.my.cnf", "~/.password-store/*",
    "~/.local/state/hooklatch/*",
    # What shells run, or sessions of desktops, or systemd for the user.
    "~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_logout", "~/.bash_aliases", "~/.profile", "~/.zshrc",
    "~/.zshenv", "~/.zprofile", "~/.zlogin", "~/.zlogout", "~/.kshrc", "~/.cshrc", "~/.tcshrc", "~/.login",
    "~/.inputrc", "~/.config/fish/*", "~/.config/environment.d/*", "~/.pam_environment", "~/.xprofile", "~/.xinitrc",
    "~/.xsession*", "~/.config/autostart/*", "~/.config/systemd/*", "~/.local/share/systemd/*", ".envrc",
    "~/Library/LaunchAgents/*",
    # What git, Python, editors, debuggers and other programs run or are told by when they start.
    "~/.gitconfig", "~/.config/git/*", "*/site-packages/*.pth", "*/dist-packages/*.pth", "sitecustomize.py",
    "usercustomize.py", "~/.pythonrc*", "~/.config/pip/*", "~/.pip/*", "~/.pdbrc", "~/.irbrc", "~/.Rprofile",
    "~/.vimrc", "~/.gvimrc", "~/.vim/*", "~/.config/nvim/*", "~/.emacs", "~/.emacs.d/*", "~/.config/emacs/*", ".exrc",
    ".dir-locals.el", "~/.gdbinit", ".gdbinit", "~/.lldbinit", "~/.psqlrc", "~/.sqliterc", "~/.tmux.conf",
    "~/.config/tmux/*", "~/.screenrc", "~/.curlrc", "~/.wgetrc", "~/.cargo/config*", "~/.cargo/env",
    "~/.gradle/init.d/*", "~/.m2/settings.xml", "~/.rhosts", "~/.forward", "*/.vscode/tasks.json",
    "*/.vscode/settings.json", "~/.config/Code/User/*", "~/.config/zed/*",
    "/etc/*", "/boot/*", "/usr/*", "/bin/*", "/sbin/*", "/lib*/*", "/sys/*", "/proc/*", "/run/*", "/var/spool/cron/*",
    "/var/spool/at/*", "/Library/*", "/System/*",
    # Where agents' programs are told to ask hooklatch: without these entries no guard is asked.
    "*/.claude/settings*.json", "*/.codex/hooks.json", "*/.codex/config.toml", "*/.gemini/settings.json",
    "*/.qwen/settings.json", "*/.copilot/hooks/*", "*/.copilot/*.json", "*/.github/hooks/*", "*/.cursor/hooks.json",
    "*/opencode/plugins/*", "*/.opencode/plugins/*", "*/.kimi-code/config.toml", "*/.grok/hooks/*", "*/.grok/*.toml",
    "*/.letta/settings*.json", "*/.cline/hooks/*", "*/.clinerules/hooks/*", "*/.augment/settings*.json",
    "*/.factory/settings*.json", "*/.factory/hooks.json", "*/.agents/plugins/*",
    # What agents run besides: servers, hooks and commands of their own.
    ".mcp.json", "~/.claude.json", "*/.claude/hooks/*", "*/.claude/commands/*", "*/.claude/agents/*",
    "*/.cursor/mcp.json", "*/.vscode/mcp.json", "*/.gemini/commands/*", "*/.codex/prompts/*", "*/.continue/config.*",
    "*/.windsurf/*", "*/.codeium/*", "~/.config/opencode/*", ".aider.conf.yml",
    "*/site-packages/hooklatch/*", "*/site-packages/hooklatch_worker/*", "*/pipx/venvs/hooklatch/*",
    "*/uv/tools/hooklatch/*",
)  # fmt: skip
ALLOWED = (  # in lower case
    ".env.example", ".env.sample", ".env.template", "example.env", "sample.env", "template.env", "index.lock",
    "head.lock",
)  # fmt: skip


LOSING = {"rm", "rmdir", "mv", "shred", "srm", "chmod", "chown", "chgrp"}  # with a folder, all that is below it
UNPACKING = {"tar", "bsdtar", "unzip", "cpio", "7z"}
# What an agent may have hooklatch do: look.  All else would change its guards, or answer what they ask a person.
LOOKING = {
    "status", "health", "events", "log", "watch", "top", "sessions", "doctor", "check", "test", "fire", "replay", "dev",
    "schema", "completion", "why", "stats", "try",
}  # fmt: skip
SEARCHING = {"--text", "--hook", "--by", "--tool", "--agent", "--session"}  # of `log`: the next word is looked for
LISTING = {"hooks", "guards", "asks"}  # with one of the next words
LISTED = {"list", "show", "explain", "test"}
ENDING = {"kill", "pkill", "killall", "systemctl", "service", "launchctl"}
ATTACHING = {"gdb", "lldb", "strace", "ltrace", "renice", "prlimit", "cpulimit"}  # to a process of a number
FINDING = {"pgrep", "pidof", "ps", "lsof", "fuser"}  # which say what a daemon's number is
READING = {"grep", "cat"}  # which say it only to what is decided when it runs: kill $(cat hooklatch.pid)
READ_IN = re.compile(r"<\s*\S*hooklatch")  # $(<hooklatch.pid)
A_MODULE = re.compile(r"-[a-zA-Z]*m(.*)")  # of Python
RUNNING_MODULES = {"runpy", "pdb", "cProfile", "profile", "trace", "coverage", "debugpy"}  # by the next words
ITS_FILE = re.compile(r"(?:.*/)?hooklatch(?:/__main__\.py|/?)")
ITS_CODE = re.compile(r"hooklatch\.(?!guards\b|__version__)\w+|\brunpy\b.*hooklatch")  # what a hook has no use for
IN_CALLS = re.compile(  # a command in code of any language
    r"""\bhooklatch['"]?[\s,'"\[(]+(?:--\w+[\s,'"]+)?"""
    r"(?:stop|suspend|resume|reload|serve|init|install|uninstall|trust|state|hooks|guards|asks|fleet|link)\b"
)
ITSELF = re.compile(r"(?:bin/|(?<![\w/.-]))hooklatch(?![\w./-])")
TAKING_AWAY = {"uninstall", "remove", "purge", "rm"}
KEEPING = {"docker", "podman", "nerdctl", "git"}  # programs that take away what is not a package of this machine
CONDITIONS = {"-name", "-iname", "-type", "-maxdepth", "-mindepth", "-path", "-not", "!", "-delete", "(", "-empty"}
RUNNING = {"-exec", "-execdir", "-ok", "-okdir", "-delete"}  # of find
# What find may look for and have changed: nothing protected is named so, neither here nor in a repository's history.
EVERYDAY = re.compile(
    r"(?i)[\w*?.[\]!-]*\.(?:py|py[cio]|go|rs|c|h|cc|cpp|hpp|java|kt|rb|php|css|scss|html|md|rst|txt|o|class|orig|rej|log|tmp)"
    r"|__\w+__|node_modules|\.DS_Store"
)
INTERPRETERS = ("python", "pypy", "node", "perl", "ruby", "php", "deno", "bun", "lua", "awk", "gawk", "mawk")
NAMING = {"ls", "echo", "printf", "git", "grep", "egrep", "rg"}  # print names of files for xargs
A_NUMBER = re.compile(r"-?\d+|-w")
GIVEN = Word("what xargs is given", False)
MAX_FINDS = 20  # of one text that give something to commands; of more, what they give is asked about
# Protected files as they lie in a folder of work.
NEAR = (".env", ".git/config", ".git/HEAD", ".git/hooks/pre-commit", ".npmrc", "server.key")
MAX_PART = 255
MAX_SAME = 1000  # protected files that are looked at, where a file has several names


@hook(
    "pre_tool_use",
    match=["write", "edit", "shell", "mcp", "other"],
    timeout=2.0,
    description="no writing to protected paths",
)
def protected_paths(event: Any) -> Any:
    call = call_of(event, HARMLESS_TOOLS)
    if call.fault is not None:
        return deny(call.fault)
    in_code = [path for code in call.codes for path in paths_in_code(code)]
    for path in (*call.paths, *in_code):
        if (answer := judge_path(path, call.begin, is_whole=call.is_losing)) is not None:
            return answer
    return strictest(judge_text(line.text, line.folder, is_sure=line.is_sure) for line in call.lines)


def judge_path(path: str, folder: str, *, is_whole: bool = False) -> Any:
    """Judge a path that a tool is given."""
    list_protected_files.cache_clear()  # they are others at each call
    found = PathResolver(folder).of_text(path)
    if (pattern := find_protection(found, folder, is_whole=is_whole)) is not None:
        return deny(f"{path} is protected ({pattern}); a person has to change it")
    if not all(place.is_placed for place in found):
        return deny(f"{path[:200]!r} is no path whose place is known, so nobody can say what would be written")
    return None


def judge_text(text: str, begin: str, *, is_sure: bool = True) -> Any:
    """Judge a command that runs in a folder; what cannot be read is denied where the tool is surely a shell."""
    if text.lstrip().startswith("*** Begin Patch"):
        return deny("this is a patch and no command, and nobody says which files it changes")
    try:
        found = commands(text)
    except UnreadableCommandError as error:
        return (deny if is_sure else ask)(f"the command cannot be judged: {error}")
    unknown = ""
    finding: list[Command] = []
    paths = PathResolver(begin, text, found)
    list_protected_files.cache_clear()  # they are others at each call
    seen: set[object] = set()  # what has been judged already
    asking = {command.program for command in found if any("hooklatch" in word.text for word in command.arguments)}
    for command in found:
        is_open = not command.is_known or bool(command.fed_by) or bool({"xargs", "parallel"} & set(command.within))
        are_found = not asking.isdisjoint(FINDING | READING if is_open else FINDING)
        are_found = are_found or (is_open and READ_IN.search(text) is not None)
        if is_switching_off(command) or (are_found and command.program in ENDING | ATTACHING):
            return deny("a person decides which guards there are: this would change or end them")
        is_read = not set("$`<") & set(command.text)  # from somewhere, so that it may be any part of the text
        if command.program is None and (is_read or ITSELF.search(text)):
            unknown = unknown or command.text
        if command.program == "find" and any(word.text in RUNNING for word in command.arguments):
            finding.append(command)
        for word, find in list_find_starts(command, finding, found):
            below = paths.changed(word, find)
            if (pattern := find_protection(below, begin)) is not None:
                return deny(f"{word.text} is protected ({pattern}); a person has to change it")
            is_near = any(path.may_be(begin) or path.may_be_above(begin) for path in below)
            if (
                not all(path.is_placed for path in below)
                or find_protection(below, begin, is_whole=True) is not None
                or (is_near and may_find(find, NEAR))
            ):
                unknown = unknown or f"below {word.text}"
        is_whole = command.program in LOSING or is_unpacking(command)
        for word in list_written(command, finding, found):
            if (key := (word, command.places, command.within, is_whole, paths.links_before(command))) in seen:
                continue
            seen.add(key)
            changed = paths.changed(word, command)
            if (pattern := find_protection(changed, begin, is_whole=is_whole)) is not None:
                return deny(f"{word.text} is protected ({pattern}); a person has to change it")
            unknown = unknown or ("" if all(path.is_placed for path in changed) else word.text)
    return ask(f"what {unknown} is, is decided only when it runs") if unknown else None


def is_unpacking(command: Command) -> bool:
    """Return whether a command unpacks an archive, which may have a file for any place below its folder."""
    return command.program in UNPACKING and not command.has_option("-c", "--create", "-t", "--list", "-r", "--append")


def is_given(word: Word, command: Command) -> bool:
    """Return whether a word is what find has found."""
    return "{}" in word.text and command.within[-1:] == ("find",)


def list_givers(command: Command, found: Sequence[Command]) -> list[Command] | None:
    """Return the commands that may print what this one is given by xargs and changes; None if it is given none."""
    if {"xargs", "parallel"}.isdisjoint(command.within):
        return None
    is_named = any("{}" in word.text for word in command.arguments)
    words = command.arguments if is_named else (*command.arguments, GIVEN)
    changed = paths_written(msgspec.structs.replace(command, arguments=words))
    if not any("{}" in word.text if is_named else word is GIVEN for word in changed):
        return None
    names = {*NAMING, "find"}
    giving = [giver for giver in command.list_givers(found) if giver.program in names or counts_only(giver)]
    return giving[:MAX_FINDS]


def counts_only(command: Command) -> bool:
    """Return whether a command prints numbers, which are not names of anything protected."""
    return command.program == "seq" and all(A_NUMBER.fullmatch(word.text) for word in command.arguments)


def list_find_starts(
    command: Command, finding: Sequence[Command], found: Sequence[Command]
) -> Iterator[tuple[Word, Command]]:
    """Yield where find begins that has what it finds changed, each with the find."""
    by_itself = command.program == "find" and any(word.text == "-delete" for word in command.arguments)
    is_told = by_itself or any(is_given(word, command) for word in paths_written(command))
    giving = [command] if by_itself else [*finding[:MAX_FINDS]] if is_told else list_givers(command, found) or []
    for giver in giving:
        if giver.program == "find":
            yield from ((word, giver) for word in list_find_roots(giver))


def list_find_roots(finding: Command) -> list[Word]:
    """Return where find begins, which may stand behind options that hide it: such a one is not known."""
    found = list(itertools.takewhile(lambda word: word.text[:1] not in ("-", "(", "!"), finding.arguments))
    is_hidden = not found and bool(finding.arguments) and finding.arguments[0].text not in CONDITIONS
    return [Word("what find is told", False)] if is_hidden else found or [Word(".")]


def list_written(command: Command, finding: Sequence[Command], found: Sequence[Command]) -> Iterator[Word]:
    """Yield what a command writes, with what find gives it and what code in its words names."""
    for word in paths_written(command):
        if is_given(word, command):
            yield from (name for each in finding[:MAX_FINDS] for name in list_found_names(each))
            if not 0 < len(finding) <= MAX_FINDS or not all(map(is_everyday, finding)):
                yield word
        else:
            yield word
    giving = list_givers(command, found)
    if giving == []:
        yield GIVEN
    for giver in giving or ():
        if giver.program != "find":
            texts = (text for word in giver.operands for text in re.split(r"\s+|\\[n0t]", word.text) if word.is_known)
            yield from map(Word, filter(None, texts))
            continue
        yield from list_found_names(giver)
        if not is_everyday(giver):
            yield GIVEN
    if command.program == "find" and "-delete" in [word.text for word in command.arguments]:
        yield from list_found_names(command)
    if (command.program or "").startswith(INTERPRETERS):
        for argument in (*command.arguments, *(redirect.target for redirect in command.redirects)):
            yield from map(Word, paths_in_code(argument.text))


def list_found_names(finding: Command) -> list[Word]:
    """Return the names that find looks for, and those of protected files that these patterns mean."""
    named = names_told([word.text for word in finding.arguments])
    plain = [file for file in PROTECTED if file[:1] == "." and "/" not in file and not glob.has_magic(file)]
    meant = (file for file in plain if any(fnmatch.fnmatchcase(file, name) for name in named))
    return [Word(name) for name in (*named, *meant)]


def is_everyday(finding: Command) -> bool:
    """Return whether all that find may find has a name that nothing protected has; False for what is not seen."""
    words = [word.text for word in finding.arguments]
    words = words[: next((at for at, word in enumerate(words) if word in RUNNING), len(words))]
    if {"-o", "-or", ",", "(", ")", "-L", "-follow", "-files0-from", "-f"} & set(words):
        return False
    named = names_told(words)
    if any(last == "-maxdepth" and value in ("0", "1", "2") for last, value in itertools.pairwise(words)):
        return bool(named) and not may_find(finding, NEAR)  # names of branches lie deeper
    return bool(named) and all(EVERYDAY.fullmatch(name[:255]) for name in named)


def is_switching_off(command: Command) -> bool:
    words = [word.text for word in command.arguments]
    if (command.program or "").startswith(("python", "pypy")) and is_itself_in_python(words):
        return True
    if (command.program or "").startswith(INTERPRETERS) and any(IN_CALLS.search(word) for word in words):
        return True
    if command.program == "hooklatch":
        return is_changing_guards(words)
    if any("hooklatch" in word and ".sock" in word for word in words):  # a command that speaks to the daemon by itself
        return True
    if "hooklatch" in words and not TAKING_AWAY.isdisjoint(words) and command.program not in KEEPING:
        return True
    line = "python3 hooklatch serve" if command.has_option("-f", "--full") else "hooklatch serve"
    return command.program in ENDING and any("hooklatch" in word or is_meant(word, line) for word in words)


def is_itself_in_python(words: Sequence[str]) -> bool:
    """Return whether Python is told to run hooklatch, as a module, a file or in code, for more than to look."""
    for at, word in enumerate(words):
        if (module := A_MODULE.fullmatch(word)) is not None:
            behind = [module[1], *words[at + 1 :]] if module[1] else list(words[at + 1 :])
            if behind and behind[0] in RUNNING_MODULES:
                behind = list(itertools.dropwhile(lambda name: name.partition(".")[0] != "hooklatch", behind))
            return bool(behind) and behind[0].partition(".")[0] == "hooklatch" and is_changing_guards(behind[1:])
        if not word.startswith("-"):
            is_code = at > 0 and re.fullmatch("-[a-zA-Z]*c", words[at - 1]) is not None
            if is_code:
                return ITS_CODE.search(word) is not None
            if ITS_FILE.fullmatch(word) is not None:
                return is_changing_guards(words[at + 1 :])
            if at == 0 or words[at - 1] not in ("-X", "-W"):
                return False
    return False


def is_meant(pattern: str, line: str) -> bool:
    """Return whether a pattern of pkill means the daemon; a number of a process, and an option, do not."""
    try:
        return len(pattern) > 2 and re.search(pattern, line) is not None and not pattern.startswith("-")
    except re.error:
        return False


def is_changing_guards(arguments: Sequence[str]) -> bool:
    """Return whether hooklatch, with these words, does more than show something."""
    words = [word for word in arguments if word != "--json"]
    if "log" in words[:1] and any(
        word == "acknowledge" and before not in SEARCHING for before, word in itertools.pairwise(words)
    ):
        return True  # it takes an alarm away
    if not words or words[0] in LOOKING or words[-1] in ("--version", "--help", "-h"):
        return False
    return words[0] not in LISTING or (len(words) > 1 and words[1] not in LISTED)


def find_protection(paths: Iterable[PlacedPath], begin: str, *, is_whole: bool = False) -> str | None:
    """Return the pattern that protects one of these, None if none does; `is_whole`: all that is below is meant, too."""
    for path in paths:
        if path.whole in STREAMS:
            continue
        if (pattern := find_pattern(path.whole, is_whole=is_whole)) is not None:
            return pattern
        shared = find_file_identity(path.whole, is_shared=True) if path.is_here and path.is_placed else None
        if shared is not None and (other := list_protected_files(begin).get(shared)) is not None:
            return f"it is the same file as {other}"
    return None


def find_pattern(path: str, *, is_whole: bool) -> str | None:
    """Return the pattern that protects a path."""
    return protecting_parts(tuple(map(told_apart, split_parts(path.lower()))), is_whole=is_whole)


@functools.lru_cache(maxsize=4096)
def told_apart(part: str) -> str:
    """Return a part of a path, or the same for all that no pattern tells apart, so that one answer is for them all."""
    if len(part) > MAX_PART:
        return part
    if not glob.has_magic(part):
        return part if parts_told().fullmatch(part) else "-"
    begin = GLOB.split(part, maxsplit=1)[0]
    likely = (other for other in all_parts() if other.startswith(begin) or GLOB.search(other))
    return part if is_wide(part) or any(may_match(part, other) or may_be(other, part) for other in likely) else "-"


@functools.cache
def parts_told() -> re.Pattern[str]:
    """Return what matches each part of a path that a pattern or exception has by more than `*`."""
    return re.compile("|".join(map(fnmatch.translate, sorted(all_parts()))) + "|[.]env.*")


@functools.cache
def all_parts() -> frozenset[str]:
    parts = {part for pattern in PROTECTED for form in list_pattern_forms(pattern) for part in split_parts(form)}
    return frozenset(parts - {"*"} | {*ALLOWED})


@functools.lru_cache(maxsize=4096)
def protecting_parts(parts: tuple[str, ...], *, is_whole: bool) -> str | None:
    name = parts[-1] if parts else ""
    if name in ALLOWED or re.fullmatch(r"\.env(\.\w+)*\.(example|sample|template)", name):
        return None
    return next(
        (
            pattern
            for pattern in PROTECTED
            if any(is_match(parts, each, is_whole=is_whole) for each in list_pattern_forms(pattern))
        ),
        None,
    )


@functools.cache
def list_pattern_forms(pattern: str) -> tuple[str, ...]:
    """Return a pattern for each home that there may be."""
    homes = dict.fromkeys((find_own_home(), "/root", *(f"{folder}/*" for folder in HOMES)))
    low = pattern.lower()
    return tuple(home.lower() + low[1:] for home in homes) if low[:1] == "~" else (low,)


@functools.lru_cache(maxsize=8)
def list_protected_files(begin: str) -> dict[tuple[int, int], str]:
    """Return the protected files of homes, of a folder of work and of the system: as many as are looked at."""
    found: list[str] = []
    for pattern in PROTECTED:
        whole = os.path.expanduser(pattern) if pattern[:1] in ("~", "/") else os.path.join(begin, pattern)
        found += itertools.islice(glob.iglob(whole, include_hidden=True), MAX_SAME - len(found))
    found += itertools.islice(glob.iglob(os.path.join(begin, ".git", "**"), recursive=True), 100)
    return {identity: path for path in found if (identity := find_file_identity(path)) is not None}
