"""Refuse shell commands that destroy what cannot be had back.

Denied: removing the root, a home, a system folder, a repository's history or what lies above the working directory,
however the command is written; overwriting disks; running what the network sends.  Asked: removing what lies outside
the working directory or is decided only when it runs, git commands that throw work away, and deleting data of services.
A seat belt and no jail: a program of one's own can remove too.

This file is yours: change the lists.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from hooklatch import ask, deny, hook
from hooklatch.guards import (
    Command,
    UnreadableCommandError,
    Word,
    call_of,
    codes_of,
    commands,
    data_lost,
    is_contained,
    reads_data,
    running_fetched,
    strictest,
    strip_version,
)
from hooklatch.guards.git_losses import work_lost
from hooklatch.guards.paths import PathResolver, PlacedPath, find_own_home, find_wide_together, may_be
from hooklatch.guards.paths.devices import formats_disk, is_taking_disk, is_writing_device
from hooklatch.guards.paths.finding import list_roots, measure_left_out
from hooklatch.guards.services import DROPS
from hooklatch.shelltext.reading.codes import CODES
from hooklatch.shelltext.reading.containers import ENGINES, mounted
from hooklatch.shelltext.reading.programs import normalize_program
from hooklatch.shelltext.words import GLOB

# Globs of tools that this guard passes, such as "mcp__notes__*".  Hosts' own tools that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()

REMOVING = {"rm", "rmdir", "unlink", "shred", "srm", "wipe", "trash", "trash-put", "rimraf", "del-cli"}
RECURSIVE = ("-r", "-R", "--recursive", "--dir")
RIGHTS = {"chmod", "chown", "chgrp", "setfacl", "chattr"}
ALWAYS_RECURSIVE = {"srm", "trash", "trash-put", "rimraf", "del-cli"}
ARCHIVING = {**dict.fromkeys(("tar", "bsdtar", "gtar"), ("--remove-files",)), "zip": ("-m", "--move")}
SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr", "/var/lib", "/System", "/Library",
)  # fmt: skip
WORKPLACES = ("/opt", "/root", "/usr/src", "/usr/local/src")  # where a folder may be what an agent works on
TEMPORARY = ("/tmp", "/var/tmp", tempfile.gettempdir())
HISTORY = {".git", ".hg", ".svn", ".jj"}
FETCHING = {"curl", "wget", "http", "https", "aria2c", "nc", "ncat", "socat", "fetch"}
SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "fish", "source", "."}
INTERPRETERS = SHELLS | {
    "python", "pypy", "ipython", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "julia", "Rscript",
    "tclsh", "expect",
}  # fmt: skip
CODED = INTERPRETERS | {
    "awk", "gawk", "mawk", "nawk", "osascript", "make", "m4", "ed", "ftp", "elixir", "iex", "mix", "erl", "emacs",
    "clj", "clojure", "bb", "sbcl", "guile", "racket", "scala", "kotlin", "groovy", "jshell", "swift", "ghc", "raku",
    "R", "octave", "cmake",
}  # fmt: skip
POWERSHELL_FILE = re.compile(
    r"(?i)-{1,2}v(?:ersion)?\Z|-{1,2}h(?:elp)?\Z|(?:-no\w+ |-f(?:ile)? )*[\w./\\-]+\.ps1(?: |\Z)"
)
NAMED_CODE = re.compile(r"-m [\w.]+(?: |\Z)|[\w./-]+\.(?:py|js|mjs|ts|pl|rb|php)(?: |\Z)")  # xargs adds no code to it
SETTING_UP = re.compile(  # what programs print to be run by eval
    r"[$<]\((?:(?:ssh-agent|pyenv|rbenv|nodenv|direnv|conda|mamba|brew|starship|fnm|mise|zoxide|dircolors|opam)"
    r"(?: (?:-\w|init|hook|shell[.\w]*|env|activate|virtualenv-init)(?: [\w.=/-]+)*)?|[\w-]+ completion(?: [\w-]+)*)\)"
)
A_NAME = re.compile(r"\$(?:[a-z_]\w*|\{[a-z_]\w*\})")  # a variable of the text itself, such as of a loop, and not $HOME
REMOVES_IN_CODE = re.compile(
    r"rm_?tree|remove_tree|REMOVE_RECURSE|(?i:remove-item)|file\s+delete|\b(?i:rm)\W{1,6}(?:list\W{1,3})?-\w*[rR]|\b(?i:rm)\W{1,6}--recur|\bunlink|\brm(?:dir)?Sync|\bremoveSync|\brmdir|os\.remove"
    r"|\bdelete-(?:directory|file)|\bdelete\w*(?:Directory|File|Tree)|\bremoveItem|removedirs|FileUtils\.rm|rm_rf|\brm\([^)]{0,99}recursive|shred\s"
)
# Programs whose words are texts, and run nothing: all others may run what a word of theirs says.
TELLING = {
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "gh", "glab", "curl", "wget", "http", "jq", "yq",
    "logger", "cat", "tee", "test", "[", "[[", ":", "true", "read", "sed", "tr", "cut", "sort", "diff", "hooklatch",
    "claude", "codex", "gemini", "opencode", "copilot", "qwen", "export", "declare", "local", "alias", "pytest",
}  # fmt: skip
A_REMOVAL = re.compile(r"(?:^|[\s;&|!/(\"'`=])(?i:rm)\s+(?:-[\w-]+\s+)*?(?:-[a-zA-Z]*[rR]|--recur)")
# Programs with the words that make them destroy: those of the system are denied, those of services asked about.
DENIED_WORDS = (
    "init 0", "init 6", "telinit 0", "telinit 6", "systemctl poweroff", "systemctl reboot", "systemctl halt",
    "shutdown", "reboot", "halt", "poweroff", "killall5", "kexec -e", "openrc-shutdown",
    "lvremove", "vgremove", "pvremove", "zpool destroy",
    "zfs destroy", "btrfs subvolume delete", "cryptsetup luksErase", "cryptsetup luksFormat", "cryptsetup erase",
    "hdparm --security-erase", "nvme format", "nvme sanitize", "mdadm --zero-superblock",
)  # fmt: skip
ASKED_WORDS = (
    "crontab -r", "userdel", "deluser", "groupdel", "svn revert -R", "hg revert --all",
    "hg purge", "hg strip", "jj abandon",
)  # fmt: skip
# Print names of files for xargs, from where they are told to look.
MAX_GIVING = 20  # of these before one xargs
NAMING = {"find", "fd", "fdfind", "ls", "grep", "egrep", "rg", "git"}
LATER = "is decided only when it runs"

Answer = tuple[str, str]  # a verdict and its reason


@hook(
    "pre_tool_use",
    match=["shell", "mcp", "other"],
    timeout=2.0,
    description="nothing is destroyed that cannot be had back",
)
def destructive_commands(event: Any) -> Any:
    call = call_of(event, HARMLESS_TOOLS)
    if call.fault is not None:
        return deny(call.fault)
    if call.lines and "powershell" in str(event.tool_name).lower():
        return ask("this guard reads the language of POSIX shells, not PowerShell's")
    begin = event.cwd or os.sep
    answer = strictest(judge_text(line.text, begin, line.folder, is_sure=line.is_sure) for line in call.lines)
    if answer is None and any(REMOVES_IN_CODE.search(code) or DROPS.search(code) for code in call.codes):
        return ask("the tool is given code that removes files or data, which this guard does not read")
    return answer


def judge_text(text: str, begin: str, start: str, *, is_sure: bool) -> Any:
    """Judge a command that runs in a folder; what cannot be read is denied where the tool is surely a shell."""
    try:
        found = commands(text)
    except UnreadableCommandError as error:
        return (deny if is_sure else ask)(f"the command cannot be judged: {error}")
    paths = PathResolver(start, text, found)
    # What each of these was told to run has been read, and is judged by itself.
    running = {command.within for command in found}
    answers = [
        answer
        for command in found
        for answer in judge_command(command, begin, paths, found, is_read=(*command.within, command.program) in running)
    ]
    answers += (
        ("deny" if is_at_once else "ask", f"{clip_command(command)} {how}; save it, look at it, then run it")
        for command, how, is_at_once in running_fetched(found)
    )
    answers += (
        ("deny", f"{clip_command(command)} starts processes without end")
        for command in found
        if is_a_bomb(command, text)
    )
    denied = next((reason for verdict, reason in answers if verdict == "deny"), None)
    if denied is not None:
        return deny(denied)
    return ask(answers[0][1]) if answers else None


def judge_command(
    command: Command, begin: str, paths: PathResolver, found: Sequence[Command] = (), *, is_read: bool = False
) -> Iterator[Answer]:
    """Yield what is to be said against a command; `is_read`: what it is told to run is judged, too."""
    name, words = command.program, command.arguments
    is_read = is_read and strip_version(name or "") not in CODES  # of code only calls are read
    if (loss := data_lost(command)) is not None:
        yield "ask", f"{clip_command(command)} {loss}"
    if is_contained(command):
        yield from judge_contained(command)
    elif name is None:
        sent = FETCHING.intersection(re.findall(r"[\w.-]+", command.text))
        if not sent and SETTING_UP.fullmatch(command.text):
            return
        yield ("deny", f"{clip_command(command)} runs what the network sends") if sent else (
            "ask", f"which program {clip_command(command)} runs {LATER}"
        )  # fmt: skip
    elif name in REMOVING:
        yield from judge_removal(command, begin, paths, found)
    elif formats_disk(command) or is_writing_device(command, paths):
        yield "deny", f"{clip_command(command)} writes onto a disk"
    elif name == "find":
        yield from judge_find(command, begin, paths)
    elif name == "git":
        for folder in command.folders(paths.begin):
            yield from judge_git(command, folder)
    elif name == "mv":
        into = list(command.values_of("-t", "--target-directory"))
        moved = [*command.operands, *into] if into else command.operands[:-1]
        yield from judge_operands(moved, command, begin, paths)
    elif name in RIGHTS and command.has_option(*RECURSIVE):
        yield from judge_operands(command.operands, command, begin, paths)
    elif name in RIGHTS and not all(word.is_one for word in words):  # which may be -R
        yield from judge_operands([operand for operand in command.operands if operand.is_known], command, begin, paths)
    elif name == "rsync" and any(word.text.startswith(("--del", "--remove-source")) for word in words):
        is_emptied = any(word.text.startswith("--remove-source") for word in words)
        lost = command.operands if is_emptied else command.operands[-1:]
        yield from judge_operands(lost, command, begin, paths, is_recursive=True)
    elif name in ARCHIVING and command.has_option(*ARCHIVING[name]):
        yield from judge_operands(command.operands, command, begin, paths, is_recursive=True)
    elif name == "gio" and command.operands[:1] in ((Word("trash"),), (Word("remove"),)):
        yield from judge_operands(command.operands[1:], command, begin, paths, is_recursive=True)
    elif name == "rclone" and command.operands[:1] == (Word("sync"),):
        yield from judge_operands(command.operands[-1:], command, begin, paths, is_recursive=True)
    elif name == "kill" and "-1" in [word.text for word in words[1:]]:
        yield "deny", f"{clip_command(command)} ends every process"
    elif name in ("pkill", "killall") and is_ending_all(command):
        yield "ask", f"{clip_command(command)} ends every process of a user"
    elif name in ("powershell", "pwsh") and not POWERSHELL_FILE.match(" ".join(word.text for word in words)):
        yield "ask", f"{clip_command(command)} runs the language of PowerShell, which this guard does not read"
    elif strip_version(name) in INTERPRETERS and (answer := judge_interpreter(command)) is not None:
        yield answer
    elif not is_read and strip_version(name) in CODED and any(map(REMOVES_IN_CODE.search, codes_of(command))):
        yield "ask", f"{clip_command(command)} removes files by code that this guard does not read"
    elif not is_read and name not in TELLING and any(A_REMOVAL.search(word.text) for word in words):
        yield "ask", f"{clip_command(command)} has a command in its words that removes folders"
    elif name in ENGINES and any(
        is_above(path, paths.here(begin), is_itself_above=False)
        for folder in mounted(words)
        for path in paths.lost(Word(folder), command)
    ):
        yield "ask", f"{clip_command(command)} gives a container more than the working directory"
    elif is_among(command, DENIED_WORDS):
        yield "deny", f"{clip_command(command)} stops the machine or destroys its storage"
    elif is_among(command, ASKED_WORDS) or (
        name == "crontab" and words and words[0].text not in ("-", "-e") and "-l" not in [word.text for word in words]
    ):
        yield "ask", f"{clip_command(command)} deletes what a service keeps"
    elif is_taking_disk(command, paths):
        yield "ask", f"{clip_command(command)} is given a whole disk"


def is_a_bomb(command: Command, text: str) -> bool:
    """Return whether a function feeds itself, as in f() { f | f & }; f."""
    name = command.program or ""
    return (
        name == command.fed_by
        and "(" in text
        and re.search(rf"(?i)(?<![\w.-]){re.escape(name)}\s*\(\s*\)", text) is not None
    )


def is_ending_all(command: Command) -> bool:
    """Return whether pkill or killall is given nothing that only some processes are called."""
    users = [word.text for word in command.values_of("-u", "-U", "--user", "--euid", "--uid")]
    named = [word.text for word in command.operands if word.text not in users]
    return bool(users or named) and all(re.fullmatch(r"[.^$*+]*", name) for name in named)


def judge_contained(command: Command) -> Iterator[Answer]:
    """Judge what runs in a container, whose folders may be those of this machine: what removes a whole one."""
    removes = command.program in REMOVING and (command.program in ALWAYS_RECURSIVE or command.has_option(*RECURSIVE))
    if removes or (command.program == "find" and any(argument.text == "-delete" for argument in command.arguments)):
        named = command.operands if removes else command.operands[:1]
        for word in named:
            path = word.text.rstrip("/*.") or "/"
            if word.is_known and path[:1] in ("/", "~") and path.count("/") < 2:
                yield (
                    "ask",
                    f"{clip_command(command)} removes {word.text} in a container, which may be a folder of this "
                    "machine",
                )
    elif command.program == "git":
        yield from judge_git(command, None)


def judge_removal(command: Command, begin: str, paths: PathResolver, found: Sequence[Command]) -> Iterator[Answer]:
    is_recursive = command.program in ALWAYS_RECURSIVE or command.has_option(*RECURSIVE)
    yield from judge_operands(command.operands, command, begin, paths, is_recursive=is_recursive)
    if {"xargs", "parallel", "fd", "fdfind"}.isdisjoint(command.within):
        return
    if is_recursive:
        yield "ask", f"what {clip_command(command)} removes {LATER}"
    giving = [giver for giver in command.list_givers(found) if giver.program in NAMING]
    if len(giving) > MAX_GIVING:
        yield "ask", f"what {clip_command(command)} removes {LATER}"
    for giver in giving[-MAX_GIVING:]:
        if giver.program == "find":
            yield from judge_found(giver, command, begin, paths)
        elif any(
            word.is_known and not is_in_reach(path, paths.here(begin))
            for word in giver.operands
            for path in paths.lost(word, giver)
        ):
            yield (
                "ask",
                f"{clip_command(command)} removes what {clip_command(giver)} finds outside the working directory",
            )


def judge_find(command: Command, begin: str, paths: PathResolver) -> Iterator[Answer]:
    """Judge find where it removes what it finds."""
    words = [word.text for word in command.arguments]
    if any(word == "-delete" or normalize_program(os.path.basename(word)) in REMOVING for word in words):
        yield from judge_found(command, command, begin, paths)


def judge_found(finding: Command, command: Command, begin: str, paths: PathResolver) -> Iterator[Answer]:
    """Judge the removing of what find finds, by where it begins and by what its conditions really leave out."""
    here, left = paths.here(begin), measure_left_out(finding)
    for word in list_roots(finding):
        for path in paths.lost(word, finding):
            is_temporary = path.whole in TEMPORARY
            if not path.is_placed:
                yield "ask", f"what {clip_command(command)} removes {LATER}"
            elif is_temporary and left != "little":
                continue
            elif left != "most" and any(map(is_history, path.parts)):
                yield "deny", f"{clip_command(command)} would remove {word.text}, which cannot be had back"
            elif is_above(path, here, is_itself_above=left != "most"):
                if left == "unknown" and path.whole == here:
                    yield "ask", f"{clip_command(command)} may remove most of the working directory, and its history"
                else:
                    yield "deny", f"{clip_command(command)} would remove {word.text}, which cannot be had back"
            elif not is_in_reach(path, here):
                yield "ask", f"{clip_command(command)} removes files outside the working directory"


def judge_git(command: Command, folder: str | None) -> Iterator[Answer]:
    """Judge what a command of git throws away."""
    if (lost := work_lost(command, folder)) is not None:
        yield "ask", f"{clip_command(command)} {lost} that may exist nowhere else"


def judge_operands(
    operands: Sequence[Word], command: Command, begin: str, paths: PathResolver, *, is_recursive: bool = False
) -> Iterator[Answer]:
    """Judge what a command removes, moves or opens to others."""
    here = paths.here(begin)
    several = (
        map(Word, find_wide_together(word.text for word in operands if word.is_known)) if len(operands) > 1 else ()
    )
    for word in (*operands, *several):
        if word.text == "{}" and command.program in REMOVING and command.within[-1:] == ("find",):
            continue  # judged by where find begins
        is_variable = not word.is_known and A_NAME.fullmatch(word.text) is not None
        if is_variable and command.program == "mv" and is_staying_here(command, here, paths):
            continue
        for path in paths.lost(word, command):
            yield from judge_path(path, word, command, here, is_recursive=is_recursive)


def judge_path(path: PlacedPath, word: Word, command: Command, here: str, *, is_recursive: bool) -> Iterator[Answer]:
    """Judge one place that a command removes, moves or opens to others."""
    if any(map(is_history, path.parts)) and not path.whole.endswith(".lock"):
        yield "deny", f"{clip_command(command)} would lose or change {word.text}, which cannot be had back"
    elif not path.is_placed:
        if command.program in REMOVING or not word.is_known:
            yield "ask", f"what {clip_command(command)} changes {LATER}"
    elif lies_deep(path, here):
        return
    elif command.program in RIGHTS and path.whole == here and path.is_here:
        yield "ask", f"{clip_command(command)} changes who may read and write the whole working directory"
    elif is_above(path, here):
        yield "deny", f"{clip_command(command)} would lose or change {word.text}, which cannot be had back"
    elif (command.program != "mv" or len(path.parts) < 3) and is_of_system(path, here):
        yield "deny", f"{clip_command(command)} would lose or change {word.text}, a part of the system"
    elif is_recursive and is_of_home(path):
        yield "deny", f"{clip_command(command)} would lose {word.text}, which programs keep in the home"
    elif is_recursive and not is_in_reach(path, here):
        yield "ask", f"{clip_command(command)} removes {word.text}, which lies outside the working directory"


def is_staying_here(command: Command, here: str, paths: PathResolver) -> bool:
    """Return whether what mv moves goes nowhere else than below the folder, as far as that shows."""
    if not command.operands:
        return False
    ends = PathResolver(paths.begin).lost(
        Word(command.operands[-1].text), command
    )  # of what is not known, as it is written
    return not command.has_option("-t", "--target-directory") and all(path.is_below([here]) for path in ends)


def is_above(path: PlacedPath, here: str, *, is_itself_above: bool = True) -> bool:
    """Return whether a path is the working directory or above it, a home, the root or directly below it."""
    if path.whole == here and path.is_here:
        return is_itself_above
    return path.is_home() or len(path.parts) < 2 or path.may_be_above(here) or (path.may_be(here) and path.is_here)


def lies_deep(path: PlacedPath, here: str) -> bool:
    """Return whether a plain path lies in a working directory that holds nothing of the system, and no home."""
    is_plain = path.is_here and path.whole != here and GLOB.search(path.whole) is None
    return is_plain and path.is_below([here]) and is_own_place(here, find_own_home())


@functools.lru_cache(maxsize=8)
def is_own_place(here: str, home: str) -> bool:
    place = PlacedPath(here)
    is_apart = not place.may_be_below(SYSTEM) and not PlacedPath(home).is_below([here])
    return is_apart and len(place.parts) > 2


def is_in_reach(path: PlacedPath, here: str) -> bool:
    """Return whether a path surely lies where an agent may remove: in its working directory, or in one for a while."""
    return path.is_below(TEMPORARY) or (path.is_here and path.is_below([here]))


def is_of_system(path: PlacedPath, here: str) -> bool:
    """Return whether a path is a part of the system; a home may lie there, and a working directory such as /opt/app."""
    is_work = PlacedPath(os.path.dirname(here)).is_below(WORKPLACES)
    is_own = path.is_below([os.path.expanduser("~"), *([here] if is_work else [])]) and path.is_here
    return path.may_be_below(SYSTEM) and path.whole != "/dev/null" and not is_own


def is_of_home(path: PlacedPath) -> bool:
    """Return whether it is a hidden folder of a home: keys, settings, histories; caches are made again."""
    *above, name = path.parts or ("",)
    is_hidden = name.startswith(".") and name != ".cache"
    return is_hidden and len(above) > 0 and PlacedPath("/" + "/".join(above)).is_home()


def is_history(part: str) -> bool:
    """Return whether a part of a path is a repository's history, or a pattern that the shell may make one of."""
    return any(may_be(part, name) for name in HISTORY)


def is_among(command: Command, rules: Sequence[str]) -> bool:
    """Return whether a command is one of these: the program, and each of the options and words behind it."""
    mine = [rule.split()[1:] for rule in rules if rule.split()[0] == command.program]
    words = {word.text for word in command.arguments}
    return any(
        all(word in words or (word[0] == "-" and (command.has_option(word) or f"-{word}" in words)) for word in rule)
        for rule in mine
    )


def judge_interpreter(command: Command) -> Answer | None:
    """Judge an interpreter that runs what another program sends it."""
    if command.program in SHELLS or command.fed_by in (None, "<", "echo", "printf", "cat"):
        return None
    is_given_words = "xargs" in command.within and NAMED_CODE.match(
        " ".join(argument.text for argument in command.arguments)
    )
    if not is_given_words and not reads_data(command):
        return "ask", f"{clip_command(command)} runs what {command.fed_by} prints, which nobody has seen"
    return None


def clip_command(command: Command) -> str:
    text = " ".join(command.text.split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
