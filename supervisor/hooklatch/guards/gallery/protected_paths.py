"""Refuse to change files that an agent has no business with, and to switch guards off.

This file is yours: change the lists.  A path is compared as it is and with all links resolved, so a link into a
protected folder does not help.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from hooklatch import ask, deny, hook
from hooklatch.guards import Command, UnreadableCommandError, Word, call_of, commands, paths_written, strictest

# Globs of tools that are judged by nothing here, such as "mcp__notes__*"; those of hosts that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()
# Globs; `~` is the home of the user, and a pattern without a slash is compared with each part of the path.
PROTECTED = (
    ".git", ".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".npmrc", ".pypirc", ".netrc", ".hooklatch",
    "~/.ssh/*", "~/.aws/*", "~/.gnupg/*", "~/.kube/*", "~/.config/gcloud/*", "~/.docker/*", "~/.config/hooklatch/*",
    "~/.bashrc", "~/.zshrc", "~/.profile", "~/.bash_profile", "~/.gitconfig", "~/.config/git/*",
    "~/.local/state/hooklatch/*",
    "/etc/*", "/boot/*", "/usr/*", "/bin/*", "/sbin/*", "/lib*/*", "/sys/*", "/proc/*", "/run/*", "/var/spool/cron/*",
    # Where agents' programs are told to ask hooklatch: without these entries no guard is asked.
    "*/.claude/settings*.json", "*/.codex/hooks.json", "*/.codex/config.toml", "*/.gemini/settings.json",
    "*/.qwen/settings.json", "*/.copilot/hooks/*", "*/.copilot/*.json", "*/.github/hooks/*", "*/.cursor/hooks.json",
    "*/opencode/plugins/*", "*/.opencode/plugins/*",
    "*/site-packages/hooklatch/*", "*/site-packages/hooklatch_worker/*", "*/pipx/venvs/hooklatch/*",
    "*/uv/tools/hooklatch/*",
)  # fmt: skip
ALLOWED = (".env.example", ".env.sample", ".env.template", "index.lock", "head.lock")  # in lower case


LOSING = {"rm", "rmdir", "mv", "shred", "srm", "chmod", "chown", "chgrp"}  # with a folder, all that is below it
UNPACKING = {"tar", "bsdtar", "unzip", "cpio", "7z"}
# What an agent may have hooklatch do: look.  All else would change its guards, or answer what they ask a person.
LOOKING = {
    "status", "health", "events", "log", "watch", "top", "sessions", "doctor", "check", "test", "fire", "replay", "dev",
    "schema", "completion",
}  # fmt: skip
LISTING = {"hooks", "guards", "asks"}  # with one of the next words
LISTED = {"list", "show", "explain", "test"}
ENDING = {"kill", "pkill", "killall", "systemctl", "service", "launchctl"}
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
KEEPING = {"docker", "podman", "nerdctl", "git"}  # programs that take away what is no package of this machine
CONDITIONS = {"-name", "-iname", "-type", "-maxdepth", "-mindepth", "-path", "-not", "!", "-delete", "(", "-empty"}
RUNNING = {"-exec", "-execdir", "-ok", "-okdir", "-delete"}  # of find
# What find may look for and have changed: nothing protected is named so, neither here nor in a repository's history.
EVERYDAY = re.compile(
    r"(?i)[\w*?.[\]!-]*\.(?:py|py[cio]|go|rs|c|h|cc|cpp|hpp|java|kt|rb|php|css|scss|html|md|rst|txt|o|class|orig|rej|log|tmp)"
    r"|__\w+__|node_modules|\.DS_Store"
)
HOME_IS_SET = re.compile(r"(?<!\$)(?<!\$\{)(?<!\w)HOME\b")
INTERPRETERS = ("python", "pypy", "node", "perl", "ruby", "php", "deno", "bun", "lua", "awk", "gawk", "mawk")
# A file that code writes by one call; what it puts together is not seen.
IN_CODE = re.compile(
    r"""open\(\s*['"]([^'"\n]+)['"]\s*,\s*(?:mode\s*=\s*)?['"][rbt]*[wax+]"""
    r"""|Path\(\s*['"]([^'"\n]+)['"]\s*\)\.(?:write|unlink|touch|rename|replace|mkdir|rmdir|chmod|open\(\s*['"][wax])"""
    r"""|(?:remove|unlink|rename|replace|chmod|rmtree|move|truncate|(?:write|append|unlink|rm)(?:File)?(?:Sync)?|File\.write"""
    r"""|file_put_contents|copyfile|symlink)\(\s*['"]([^'"\n]+)['"]"""
    r"""|\bopen\s*\(?\s*\w+\s*,\s*['"]\+?>{1,2}['"]\s*,\s*['"]([^'"\n]+)['"]"""
    r"""|>\s*"([^"\n]+)\""""
)
SECOND_IN_CODE = re.compile(r"""(?:copy\w*|rename|replace|move|link)(?:Sync)?\(\s*[^,()]+,\s*['"]([^'"\n]+)['"]""")
STREAMS = {"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2"}  # links into /proc
MAX_FINDS = 20  # of one text that give something to commands; of more, what they give is asked about
MAX_MATCHES = 1000  # files of those that a pattern of the shell stands for


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
        if (pattern := protection_of(path, call.begin, is_whole=call.is_losing)) is not None:
            return deny(f"{path} is protected ({pattern}); a person has to change it")
    return strictest(of_command(line.text, line.folder, is_sure=line.is_sure) for line in call.lines)


def of_command(text: str, begin: str, *, is_sure: bool = True) -> Any:
    """Judge a command that runs in a folder; what cannot be read is denied where the tool is surely a shell."""
    if text.lstrip().startswith("*** Begin Patch"):
        return deny("this is a patch and no command, and nobody says which files it changes")
    try:
        found = commands(text)
    except UnreadableCommandError as error:
        return (deny if is_sure else ask)(f"the command cannot be judged: {error}")
    unknown = ""
    finding: list[Command] = []
    seen: set[tuple[Word, str | None, str]] = set()  # what has been judged already
    asking = {one.program for one in found if any("hooklatch" in word.text for word in one.arguments)}
    for command in found:
        is_open = not command.is_known or bool(command.fed_by) or bool({"xargs", "parallel"} & set(command.within))
        are_found = not asking.isdisjoint(FINDING | READING if is_open else FINDING)
        are_found = are_found or (is_open and READ_IN.search(text) is not None)
        if switches_off(command) or (are_found and command.program in ENDING):
            return deny("a person decides which guards there are: this would change or end them")
        is_read = not set("$`<") & set(command.text)  # from somewhere, so that it may be any part of the text
        if command.program is None and (is_read or ITSELF.search(text)):
            unknown = unknown or command.text
        if command.program == "find" and any(word.text in RUNNING for word in command.arguments):
            finding.append(command)
        for word, folder in begins_of(command, finding, begin):
            if (key := (word, folder, "begins")) in seen:
                continue
            seen.add(key)
            if (pattern := protection_of(word.text, folder or os.sep)) is not None:
                return deny(f"{word.text} is protected ({pattern}); a person has to change it")
            if not word.is_known or not folder or protection_of(word.text, folder, is_whole=True) is not None:
                unknown = unknown or f"below {word.text}"
        for word in written(command, finding, text):
            for folder in command.folders(begin):
                if (key := (word, folder, str(command.program in LOSING))) in seen:
                    continue
                seen.add(key)
                is_lost = not word.is_known or (folder is None and not word.text.startswith(("/", "~")))
                is_whole = command.program in LOSING or is_unpacking(command)
                pattern = protection_of(word.text, folder or begin, is_whole=is_whole)
                if pattern is not None:
                    return deny(f"{word.text} is protected ({pattern}); a person has to change it")
                unknown = unknown or (word.text if is_lost else "")
    return ask(f"what {unknown} is, is decided only when it runs") if unknown else None


def is_unpacking(command: Command) -> bool:
    """Return whether a command unpacks an archive, which may have a file for any place below its folder."""
    return command.program in UNPACKING and not command.has_option("-c", "--create", "-t", "--list", "-r", "--append")


def is_given(word: Word, command: Command) -> bool:
    """Return whether a word is what find has found."""
    return "{}" in word.text and command.within[-1:] == ("find",)


def begins_of(command: Command, finding: Sequence[Command], begin: str) -> Iterator[tuple[Word, str | None]]:
    """Yield where find begins that has what it finds changed, each with a folder that this is seen from."""
    by_itself = command.program == "find" and any(word.text == "-delete" for word in command.arguments)
    if not by_itself and not any(is_given(word, command) for word in paths_written(command)):
        return
    for one in [command] if by_itself else finding[:MAX_FINDS]:
        for word in roots_of(one):
            yield from ((word, folder) for folder in one.folders(begin))


def roots_of(finding: Command) -> list[Word]:
    """Return where find begins, which may stand behind options that hide it: such a one is not known."""
    found = list(itertools.takewhile(lambda word: not word.text.startswith(("-", "(", "!")), finding.arguments))
    is_hidden = not found and bool(finding.arguments) and finding.arguments[0].text not in CONDITIONS
    return [Word("what find is told", False)] if is_hidden else found or [Word(".")]


def written(command: Command, finding: Sequence[Command], text: str) -> Iterator[Word]:
    """Yield what a command writes, with what find gives it and what code in its words names."""
    for word in paths_written(command):
        if is_given(word, command):
            yield from (one for each in finding[:MAX_FINDS] for one in names_found(each))
            if not 0 < len(finding) <= MAX_FINDS or not all(map(is_everyday, finding)):
                yield word
        elif not word.is_known and HOME_IS_SET.search(text) is None:
            plain = re.sub(r"\A\$(?:HOME|\{HOME\})(?=/|\Z)", "~", word.text)
            yield Word(plain, plain != word.text and not set(plain) & set("$`"))
        else:
            yield word
    if command.program == "find" and "-delete" in [word.text for word in command.arguments]:
        yield from names_found(command)
    if (command.program or "").startswith(INTERPRETERS):
        for told in (*command.arguments, *(one.target for one in command.redirects)):
            yield from map(Word, paths_in_code(told.text))


def paths_in_code(code: str) -> Iterator[str]:
    yield from (path for groups in IN_CODE.findall(code) for path in groups if path)
    yield from SECOND_IN_CODE.findall(code)


def names_found(finding: Command) -> list[Word]:
    """Return the names that find looks for, and those of protected files that these patterns mean."""
    named = names_told([word.text for word in finding.arguments])
    plain = [one for one in PROTECTED if "/" not in one and not glob.has_magic(one)]
    return [Word(one) for one in (*named, *(one for one in plain if any(fnmatchcase(one, name) for name in named)))]


def names_told(told: Sequence[str]) -> list[str]:
    """Return the names of find's conditions that none of the words before takes back."""
    told = ["", "", *told]
    return [
        told[at]
        for at in range(2, len(told))
        if told[at - 1] in ("-name", "-iname") and told[at - 2] not in ("!", "-not")
    ]


def is_everyday(finding: Command) -> bool:
    """Return whether all that find may find has a name that nothing protected has; False for what is not seen."""
    told = [word.text for word in finding.arguments]
    told = told[: next((at for at, word in enumerate(told) if word in RUNNING), len(told))]
    if {"-o", "-or", ",", "(", ")", "-L", "-follow", "-files0-from", "-f"} & set(told):
        return False
    named = names_told(told)
    return bool(named) and all(EVERYDAY.fullmatch(one[:255]) for one in named)


def switches_off(command: Command) -> bool:
    told = [word.text for word in command.arguments]
    if (command.program or "").startswith(("python", "pypy")) and is_itself_in_python(told):
        return True
    if (command.program or "").startswith(INTERPRETERS) and any(IN_CALLS.search(word) for word in told):
        return True
    if command.program == "hooklatch":
        return changes_guards(told)
    if any("hooklatch" in word and ".sock" in word for word in told):  # whoever speaks to the daemon by itself
        return True
    if "hooklatch" in told and not TAKING_AWAY.isdisjoint(told) and command.program not in KEEPING:
        return True
    line = "python3 hooklatch serve" if command.has_option("-f", "--full") else "hooklatch serve"
    return command.program in ENDING and any("hooklatch" in word or is_meant(word, line) for word in told)


def is_itself_in_python(told: Sequence[str]) -> bool:
    """Return whether Python is told to run hooklatch, as a module, a file or in code, for more than to look."""
    for at, word in enumerate(told):
        if (module := A_MODULE.fullmatch(word)) is not None:
            behind = [module[1], *told[at + 1 :]] if module[1] else list(told[at + 1 :])
            if behind and behind[0] in RUNNING_MODULES:
                behind = list(itertools.dropwhile(lambda one: one.partition(".")[0] != "hooklatch", behind))
            return bool(behind) and behind[0].partition(".")[0] == "hooklatch" and changes_guards(behind[1:])
        if not word.startswith("-"):
            is_code = at > 0 and re.fullmatch("-[a-zA-Z]*c", told[at - 1]) is not None
            if is_code:
                return ITS_CODE.search(word) is not None
            if ITS_FILE.fullmatch(word) is not None:
                return changes_guards(told[at + 1 :])
            if at == 0 or told[at - 1] not in ("-X", "-W"):
                return False
    return False


def is_meant(pattern: str, line: str) -> bool:
    """Return whether a pattern of pkill means the daemon; a number of a process, and an option, do not."""
    try:
        return len(pattern) > 2 and re.search(pattern, line) is not None and not pattern.startswith("-")
    except re.error:
        return False


def changes_guards(told: Sequence[str]) -> bool:
    """Return whether hooklatch, with these words, does more than show something."""
    words = [word for word in told if word != "--json"]
    if not words or words[0] in LOOKING or words[-1] in ("--version", "--help", "-h"):
        return False
    return words[0] not in LISTING or (len(words) > 1 and words[1] not in LISTED)


def protection_of(path: str, folder: str, *, is_whole: bool = False) -> str | None:
    """Return the pattern that protects a path, None if none does; `is_whole` if all that is below it is meant too."""
    plain = os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
    named = {plain}
    if glob.has_magic(plain):  # the shell makes of it what is there; without that it stays as it is
        named.update(itertools.islice(glob.iglob(plain.replace("[^", "[!")), MAX_MATCHES))
    for one in {plain} if plain in STREAMS else named.union(map(os.path.realpath, named)):
        low = one.lower()  # there are file systems to which that is the same
        if os.path.basename(low) in ALLOWED or re.fullmatch(
            r"\.env(\.\w+)*\.(example|sample|template)", os.path.basename(low)
        ):
            continue
        for pattern in PROTECTED:
            if "/" not in pattern:
                if any(fnmatchcase(part, pattern) for part in low.split("/")):
                    return pattern
                continue
            whole = os.path.expanduser(pattern).lower()
            above = whole.rpartition("/")[0] if whole.startswith("*") else whole.partition("*")[0].rstrip("/")
            if fnmatchcase(low, whole) or low == above:
                return pattern
            if is_whole and (fnmatchcase(low, above) or above.startswith(f"{low.rstrip('/')}/")):
                return pattern
    return None
