"""Refuse shell commands that destroy what cannot be had back.

Denied: removing the root, a home, a system folder, a repository's history or what lies above the working directory,
however the command is written; overwriting disks; running what the network sends.  Asked: removing what lies outside
the working directory or is decided only when it runs, git commands that throw work away, and deleting data of services.
A seat belt and no jail: a program of one's own can remove too.

This file is yours: change the lists.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
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
    git_options,
    git_parts,
    is_contained,
    paths_written,
    reads_data,
    running_fetched,
    strictest,
)
from hooklatch.guards.effects.services import DROPS

# Globs of tools that are judged by nothing here, such as "mcp__notes__*"; those of hosts that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()

REMOVING = {"rm", "rmdir", "unlink", "shred", "srm", "trash", "rimraf", "del-cli"}
RECURSIVE = ("-r", "-R", "--recursive", "--dir")
RIGHTS = {"chmod", "chown", "chgrp", "setfacl", "chattr"}
ENGINES = {"docker", "podman", "nerdctl"}
MOUNTS = re.compile(r"\A(?:--volume=|-[a-z]*v(?=[/~.$]))")
SOURCES = re.compile(r"(?:^|[,=])(?:src|source)=((?:/|~|\.\.)[^,]*)")
ALWAYS_RECURSIVE = {"srm", "trash", "rimraf", "del-cli"}
SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr", "/var/lib", "/System", "/Library",
)  # fmt: skip
WORKPLACES = ("/opt", "/root", "/usr/src", "/usr/local/src")  # where a folder may be what an agent works on
TEMPORARY = ("/tmp", "/var/tmp", tempfile.gettempdir())
HISTORY = {".git", ".hg", ".svn", ".jj"}
WIDE = re.compile(r"\[(?:[!^][^\]]*|[^\]]*(?:a-z|\[:\w+:\]?)[^\]]*)\]+")  # what most names may begin with
NARROWING = {"-name", "-iname", "-path", "-regex", "-newer", "-mtime", "-empty"}  # of find
OVERWRITING_DISKS = ("mkfs", "wipefs", "fdisk", "sfdisk", "gdisk", "sgdisk", "parted", "blkdiscard", "mke2fs", "mkswap")
DISKS = ("/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/hd", "/dev/disk", "/dev/mapper", "/dev/mmcblk", "/dev/md")
FETCHING = {"curl", "wget", "http", "https", "aria2c", "nc", "ncat", "socat", "fetch"}
SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "fish", "source", "."}
INTERPRETERS = SHELLS | {
    "python", "pypy", "ipython", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "julia", "Rscript",
    "tclsh", "expect",
}  # fmt: skip
CODED = INTERPRETERS | {"awk", "gawk", "mawk", "nawk", "osascript", "make", "m4", "ed", "ftp"}
NAMED_CODE = re.compile(r"-m [\w.]+(?: |\Z)|[\w./-]+\.(?:py|js|mjs|ts|pl|rb|php)(?: |\Z)")  # what xargs adds is no code
SETTING_UP = re.compile(  # what programs print to be run by eval
    r"[$<]\((?:(?:ssh-agent|pyenv|rbenv|nodenv|direnv|conda|mamba|brew|starship|fnm|mise|zoxide|dircolors|opam)"
    r"(?: (?:-\w|init|hook|shell[.\w]*|env|activate|virtualenv-init)(?: [\w.=/-]+)*)?|[\w-]+ completion(?: [\w-]+)*)\)"
)
A_NAME = re.compile(r"\$(?:[a-z_]\w*|\{[a-z_]\w*\})")  # a variable of the text itself, such as of a loop, and not $HOME
VERSION = re.compile(r"(?<=[a-z])[\d.]+\Z")  # python3.12
REMOVES_IN_CODE = re.compile(
    r"rm_?tree|remove_tree|\brm\W{1,6}-\w*[rR]|\brm\W{1,6}--recur|\bunlink|\brm(?:dir)?Sync|\bremoveSync|\brmdir|os\.remove"
    r"|removedirs|FileUtils\.rm|rm_rf|\brm\([^)]{0,99}recursive|shred\s"
)
# Programs whose words are texts, and run nothing: all others may run what a word of theirs says.
TELLING = {
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "gh", "glab", "curl", "wget", "http", "jq", "yq",
    "logger", "cat", "tee", "test", "[", "[[", ":", "true", "read", "sed", "tr", "cut", "sort", "diff", "hooklatch",
    "claude", "codex", "gemini", "opencode", "copilot", "qwen", "export", "declare", "local", "alias", "pytest",
}  # fmt: skip
A_REMOVAL = re.compile(r"(?:^|[\s;&|!/(\"'`=])rm\s+(?:-[\w-]+\s+)*?(?:-[a-zA-Z]*[rR]|--recur)")
# Programs with the words that make them destroy: those of the system are denied, those of services asked about.
DENIED_WORDS = (
    "init 0", "init 6", "telinit 0", "telinit 6", "systemctl poweroff", "systemctl reboot", "systemctl halt",
    "shutdown", "reboot", "halt", "poweroff", "killall5", "lvremove", "vgremove", "pvremove", "zpool destroy",
    "zfs destroy", "btrfs subvolume delete", "cryptsetup luksErase", "cryptsetup luksFormat", "cryptsetup erase",
    "hdparm --security-erase", "nvme format", "nvme sanitize", "mdadm --zero-superblock",
)  # fmt: skip
ASKED_WORDS = (
    "crontab -r", "userdel", "deluser", "groupdel", "svn revert -R", "hg revert --all",
    "hg purge", "hg strip", "jj abandon",
)  # fmt: skip
# git commands that throw away what was not committed or pushed, or what names it, with the options or words that make
# them do it; "*" is any, and a word that ends with "*" is what others begin with.
THROWING_AWAY: dict[str, tuple[str, ...]] = {
    "clean": ("-f", "--force"), "reset": ("--hard", "--merge"), "stash": ("drop", "clear"),
    "branch": ("-D", "-f", "--force", "-M", "-C"), "tag": ("-d", "--delete", "-f", "--force"),
    "push": ("-f", "--force", "--mirror", "--delete", "-d", "--prune", "+*", ":*"),
    "send-pack": ("-f", "--force", "--mirror", "+*", ":*"),
    "fetch": ("-f", "--force", "-u", "--update-head-ok", "+*"), "pull": ("-f", "--force", "+*"),
    "checkout": (".", "..", "/*", "./*", "../*", ":*", "--", "-B", "--force", "-f", "--pathspec-from-file"),
    "switch": ("-C", "--force-create", "--discard-changes", "--force", "-f"), "restore": ("*",),
    "rm": ("-f", "--force"),
    "mv": ("-f", "--force"), "reflog": ("expire", "delete"), "update-ref": ("*",), "symbolic-ref": ("-d", "--delete"),
    "read-tree": ("--reset", "-u"), "checkout-index": ("-f", "--force"), "worktree": ("-f", "--force"),
    "remote": ("prune", "remove", "rm"), "gc": ("--prune",), "submodule": ("-f", "--force"), "prune": ("*",),
    "filter-branch": ("*",), "filter-repo": ("*",), "replace": ("-d", "--delete", "-f", "--force"),
    "notes": ("remove", "prune", "-f", "--force"), "lfs": ("prune", "migrate"),
}  # fmt: skip
# With one of the first options, and none of the second ones, these throw nothing away.
HARMLESS = {
    "restore": (("-S", "--staged"), ("-W", "--worktree")), "rm": (("--cached",), ()),
    "clean": (("-n", "--dry-run"), ()), "worktree": (("-n", "--dry-run"), ()),
    "checkout": (("-p", "--patch"), ("-f", "--force")),
    "prune": (("-n", "--dry-run"), ()),
}  # fmt: skip
# What `git checkout` is likelier to take for a file than for a branch.
A_FILE = re.compile(r".*[*?\[].*|(?:.*/)?[\w-][\w.-]*\.[A-Za-z][A-Za-z0-9]{0,4}")
UNKNOWN = "/nobody/knows/where"  # the folder after `cd $X`
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
    answer = strictest(of_command(line.text, begin, line.folder, is_sure=line.is_sure) for line in call.lines)
    if answer is None and any(REMOVES_IN_CODE.search(code) or DROPS.search(code) for code in call.codes):
        return ask("the tool is given code that removes files or data, which this guard does not read")
    return answer


def of_command(text: str, begin: str, start: str, *, is_sure: bool) -> Any:
    """Judge a command that runs in a folder; what cannot be read is denied where the tool is surely a shell."""
    try:
        found = commands(text)
    except UnreadableCommandError as error:
        return (deny if is_sure else ask)(f"the command cannot be judged: {error}")
    running = {one.within for one in found}  # what each of these was told to run has been read, and is judged by itself
    said = [
        answer
        for one in found
        for place in one.folders(start)
        for answer in judged(one, begin, place or UNKNOWN, is_read=(*one.within, one.program) in running)
    ]
    said += (
        ("deny" if is_at_once else "ask", f"{shown(one)} {how}; save it, look at it, then run it")
        for one, how, is_at_once in running_fetched(found)
    )
    said += (("deny", f"{shown(one)} starts processes without end") for one in found if is_a_bomb(one, text))
    denied = next((reason for verdict, reason in said if verdict == "deny"), None)
    if denied is not None:
        return deny(denied)
    return ask(said[0][1]) if said else None


def judged(command: Command, begin: str, folder: str, *, is_read: bool = False) -> Iterator[Answer]:
    """Yield what is to be said against a command in this folder; `is_read`: what it is told to run is judged, too."""
    name, words = command.program, command.arguments
    if (loss := data_lost(command)) is not None:
        yield "ask", f"{shown(command)} {loss}"
    if is_contained(command):
        yield from in_container(command)
    elif name is None:
        sent = FETCHING.intersection(re.findall(r"[\w.-]+", command.text))
        if not sent and SETTING_UP.fullmatch(command.text):
            return
        yield ("deny", f"{shown(command)} runs what the network sends") if sent else (
            "ask", f"which program {shown(command)} runs {LATER}"
        )  # fmt: skip
    elif any(word.text.startswith(DISKS) for word in paths_written(command)) or name.startswith(OVERWRITING_DISKS):
        yield "deny", f"{shown(command)} writes onto a disk"
    elif name in REMOVING:
        yield from removal(command, begin, folder)
    elif name == "find":
        yield from search(command, begin, folder)
    elif name == "git":
        yield from history(command, folder)
    elif name == "mv":
        into = list(command.values_of("-t", "--target-directory"))
        moved = [*command.operands, *into] if into else command.operands[:-1]
        yield from reaching(moved, command, begin, folder)
    elif name in RIGHTS and command.has_option(*RECURSIVE):
        yield from reaching(command.operands, command, begin, folder)
    elif name in RIGHTS and not all(word.is_one for word in words):  # which may be -R
        yield from reaching([one for one in command.operands if one.is_known], command, begin, folder)
    elif name == "rsync" and any(word.text.startswith(("--del", "--remove-source")) for word in words):
        is_emptied = any(word.text.startswith("--remove-source") for word in words)
        lost = command.operands if is_emptied else command.operands[-1:]
        yield from reaching(lost, command, begin, folder, is_recursive=True)
    elif name == "kill" and "-1" in [word.text for word in words[1:]]:
        yield "deny", f"{shown(command)} ends every process"
    elif VERSION.sub("", name) in INTERPRETERS and (answer := running_what_comes(command)) is not None:
        yield answer
    elif not is_read and VERSION.sub("", name) in CODED and any(map(REMOVES_IN_CODE.search, codes_of(command))):
        yield "ask", f"{shown(command)} removes files by code that this guard does not read"
    elif not is_read and name not in TELLING and any(A_REMOVAL.search(word.text) for word in words):
        yield "ask", f"{shown(command)} has a command in its words that removes folders"
    elif name in ENGINES and any(is_above(one, begin, folder, is_itself_above=False) for one in mounted(words)):
        yield "ask", f"{shown(command)} gives a container more than the working directory"
    elif is_among(command, DENIED_WORDS):
        yield "deny", f"{shown(command)} stops the machine or destroys its storage"
    elif is_among(command, ASKED_WORDS) or (
        name == "crontab" and words and words[0].text not in ("-", "-e") and "-l" not in [one.text for one in words]
    ):
        yield "ask", f"{shown(command)} deletes what a service keeps"


def is_a_bomb(command: Command, text: str) -> bool:
    """Return whether a function feeds itself, as in f() { f | f & }; f."""
    name = command.program or ""
    return (
        name == command.fed_by
        and "(" in text
        and re.search(rf"(?<![\w.-]){re.escape(name)}\s*\(\s*\)", text) is not None
    )


def in_container(command: Command) -> Iterator[Answer]:
    """Judge what runs in a container, whose folders may be those of this machine: what removes a whole one."""
    removes = command.program in REMOVING and (command.program in ALWAYS_RECURSIVE or command.has_option(*RECURSIVE))
    if removes or (command.program == "find" and any(one.text == "-delete" for one in command.arguments)):
        named = command.operands if removes else command.operands[:1]
        for word in named:
            path = word.text.rstrip("/*.") or "/"
            if word.is_known and path.startswith(("/", "~")) and path.count("/") < 2:
                yield (
                    "ask",
                    f"{shown(command)} removes {word.text} in a container, which may be a folder of this machine",
                )
    elif command.program == "git":
        yield from history(command, UNKNOWN)


def mounted(words: Sequence[Word]) -> Iterator[str]:
    """Yield the folders of this machine that a container is given: -v /:/h, --volume=/:/h, --mount src=/,dst=/h."""
    for word in words:
        path = MOUNTS.sub("", word.text).replace("${HOME}", "~").replace("$HOME", "~")
        if path.startswith(("/", "~", "..")) and ":" in path:
            yield path.partition(":")[0]
        yield from SOURCES.findall(word.text)


def removal(command: Command, begin: str, folder: str) -> Iterator[Answer]:
    is_recursive = command.program in ALWAYS_RECURSIVE or command.has_option(*RECURSIVE)
    yield from reaching(command.operands, command, begin, folder, is_recursive=is_recursive)
    if is_recursive and not {"xargs", "parallel", "fd", "fdfind"}.isdisjoint(command.within):
        yield "ask", f"what {shown(command)} removes {LATER}"


def search(command: Command, begin: str, folder: str) -> Iterator[Answer]:
    """Judge find where it removes what it finds."""
    told = [word.text for word in command.arguments]
    if not any(word == "-delete" or word.rpartition("/")[2] in REMOVING for word in told):
        return
    starts = list(command.arguments)
    while starts and (starts[0].text in ("-L", "-H", "-P", "-D") or starts[0].text.startswith("-O")):
        starts = starts[2:] if starts[0].text == "-D" else starts[1:]
    end = next((at for at, word in enumerate(starts) if word.text.startswith(("-", "(", "!"))), len(starts))
    is_narrowed = all(is_narrow(branch) for branch in branches_of(told))
    for word in starts[:end] or [Word(".")]:
        if not word.is_known:
            yield "ask", f"what {shown(command)} removes {LATER}"
        elif is_narrowed and resolved(word.text, folder) in TEMPORARY:
            continue
        elif is_above(word.text, begin, folder, is_itself_above=not is_narrowed) or (
            not is_narrowed and any(map(is_history, resolved(word.text, folder).split("/")))
        ):
            yield "deny", f"{shown(command)} would remove {word.text}, which cannot be had back"
        elif not is_below(resolved(word.text, folder), (resolved(begin, "/"), *TEMPORARY)):
            yield "ask", f"{shown(command)} removes files outside the working directory"


def branches_of(told: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the words of each alternative of find: what one of them finds is removed."""
    begin = 0
    for at, word in enumerate(told):
        if word in ("-o", "-or", ","):
            yield told[begin:at]
            begin = at + 1
    yield told[begin:]


def is_narrow(told: Sequence[str]) -> bool:
    """Return whether a condition leaves out most files, and the history of a repository."""
    for at, word in enumerate(told):
        is_negated = at > 0 and told[at - 1] in ("!", "-not")
        value = told[at + 1].lower() if at + 1 < len(told) else ""
        if is_negated or word not in NARROWING:
            continue
        parts = value.split("/") if word == "-path" else [value.replace("\\", "")]
        if word in ("-newer", "-mtime", "-empty") or (
            value.strip("*?.[]!/")
            and not any(fnmatchcase(one, part) for one in HISTORY for part in parts if part != "*")
        ):
            return True
    return False


def history(command: Command, folder: str) -> Iterator[Answer]:
    """Judge what a command of git throws away."""
    settings, verb, rest = git_parts(command)
    told, throwing = git_options(command), THROWING_AWAY.get(verb, ())
    harmless, undoing = HARMLESS.get(verb, ((), ()))
    if told.has(*harmless) and not told.has(*undoing):
        return
    texts = [word.text for word in told.operands] + (["--"] if "--" in rest else [])
    is_meant = "*" in throwing or told.has(*throwing) or not set(texts[:1]).isdisjoint(throwing)
    is_meant = is_meant or any(fnmatchcase(text, one) for text in texts for one in throwing if not one.isalpha())
    if verb == "clean" and any(one.lower().startswith("clean.requireforce") for one in settings):
        is_meant = True
    if verb == "checkout" and not told.has("-b", "-B", "--orphan", "-t", "--track", "-d", "--detach"):
        is_file = any(A_FILE.fullmatch(one) or os.path.lexists(os.path.join(folder, one)) for one in texts)
        is_meant = is_meant or len(texts) > 1 or is_file
    if is_meant:
        lost = "overwrites what others have pushed" if verb in ("push", "send-pack") else "throws away work"
        yield "ask", f"{shown(command)} {lost} that may exist nowhere else"


def reaching(
    operands: Sequence[Word], command: Command, begin: str, folder: str, *, is_recursive: bool = False
) -> Iterator[Answer]:
    """Judge what a command removes, moves or opens to others."""
    is_lost = folder == UNKNOWN
    for word in operands:
        if word.text == "{}" and command.program in REMOVING and command.within[-1:] == ("find",):
            continue  # judged by where find begins
        if command.program == "mv" and not word.is_known and A_NAME.fullmatch(word.text) and stays_here(command):
            continue
        is_open = is_lost and is_recursive and not word.text.startswith(("/", "~"))
        if not word.is_known or is_open or len(word.text) > 4096:
            yield "ask", f"what {shown(command)} changes {LATER}"
            continue
        whole = resolved(word.text, folder)
        parts = whole.split("/")
        if command.program in RIGHTS and whole == resolved(begin, "/"):
            yield "ask", f"{shown(command)} changes who may read and write the whole working directory"
            continue
        if is_above(word.text, begin, folder) or (any(map(is_history, parts)) and not whole.endswith(".lock")):
            yield "deny", f"{shown(command)} would lose or change {word.text}, which cannot be had back"
        elif (command.program != "mv" or len(parts) < 4) and is_of_system(whole, resolved(begin, "/")):
            yield "deny", f"{shown(command)} would lose or change {word.text}, a part of the system"
        elif is_recursive and is_of_home(whole):
            yield "deny", f"{shown(command)} would lose {word.text}, which programs keep in the home"
        elif is_recursive and not is_below(whole, (resolved(begin, "/"), *TEMPORARY)):
            yield "ask", f"{shown(command)} removes {word.text}, which lies outside the working directory"


def stays_here(command: Command) -> bool:
    """Return whether what mv moves goes nowhere else than below the folder, as far as that shows."""
    to = command.operands[-1].text if command.operands else "/"
    return not command.has_option("-t", "--target-directory") and not to.startswith(("/", "~", ".."))


def resolved(path: str, folder: str) -> str:
    """Return what is lost, with links followed: of `link` it is the link, of `link/` and `link/*` what it leads to."""
    whole = os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
    is_inside = path.endswith("/")
    while is_all(os.path.basename(whole)):
        whole, is_inside = os.path.dirname(whole), True
    above, name = os.path.split(os.path.normpath(f"/{whole.lstrip('/')}"))
    whole = os.path.join(os.path.realpath(above), name)
    return os.path.realpath(whole) if is_inside else os.path.normpath(whole)


def is_all(pattern: str) -> bool:
    """Return whether a pattern of the shell leaves out little of a folder: *, ?*, *.*, [!x]*, [a-z]*."""
    rest = WIDE.sub("", pattern[-255:])  # a name is not longer
    return "*" in rest and not rest.strip("*?.")


def is_above(target: str, begin: str, folder: str, *, is_itself_above: bool = True) -> bool:
    """Return whether a target is the working directory or above it, a home, the root or directly below it."""
    if target.startswith("~") and not target.partition("/")[2].strip("/*."):
        return True
    whole, here = resolved(target, folder), resolved(begin, "/")
    if whole == here:
        return is_itself_above
    is_home = whole == os.path.expanduser("~") or os.path.dirname(whole) in ("/home", "/Users")
    return is_home or whole.count("/") < 2 or here.startswith(f"{whole}/")


def is_of_system(path: str, begin: str) -> bool:
    """Return whether a path is a part of the system; a home may lie there, and a working directory such as /opt/app."""
    own = [os.path.expanduser("~"), *([begin] if is_below(os.path.dirname(begin), WORKPLACES) else [])]
    is_own = any(one != "/" and path.startswith(f"{one}/") for one in own)
    return is_below(path, SYSTEM) and path != "/dev/null" and not is_own


def is_of_home(path: str) -> bool:
    """Return whether it is a hidden folder of the home: keys, settings, histories; caches are made again."""
    folder, name = os.path.split(path)
    return folder == os.path.expanduser("~") and name.startswith(".") and name != ".cache"


def is_history(part: str) -> bool:
    """Return whether a part of a path is a repository's history, or a pattern that the shell may make one of."""
    return part in HISTORY or (part.startswith(".") and any(fnmatchcase(one, part) for one in HISTORY))


def is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in folders)


def is_among(command: Command, rules: Sequence[str]) -> bool:
    """Return whether a command is one of these: the program, and each of the options and words behind it."""
    mine = [rule.split()[1:] for rule in rules if rule.split()[0] == command.program]
    told = {word.text for word in command.arguments}
    return any(
        all(word in told or (word[0] == "-" and (command.has_option(word) or f"-{word}" in told)) for word in rule)
        for rule in mine
    )


def running_what_comes(command: Command) -> Answer | None:
    """Judge an interpreter that runs what another program sends it."""
    is_shell = command.program in SHELLS
    is_open = is_shell or not reads_data(command)
    is_given_words = "xargs" in command.within and NAMED_CODE.match(" ".join(one.text for one in command.arguments))
    if is_open and not is_shell and not is_given_words and command.fed_by not in (None, "<", "echo", "printf", "cat"):
        return "ask", f"{shown(command)} runs what {command.fed_by} prints, which nobody has seen"
    return None


def shown(command: Command) -> str:
    text = " ".join(command.text.split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
