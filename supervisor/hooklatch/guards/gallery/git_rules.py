"""Refuse pushes to protected branches, forced pushes, and ways around checks.

This file is yours: change the lists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from hooklatch import ask, deny, hook
from hooklatch.guards import Command, UnreadableCommandError, Word, call_of, commands, git_parts, strictest

# Globs of tools that are judged by nothing here, such as "mcp__notes__*"; those of hosts that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()
PROTECTED_BRANCHES = ("main", "master", "trunk", "production", "release/*")
AROUND_CHECKS = ("--no-verify", "--no-gpg-sign")
# Variables that leave checks out, change settings, or say who commits.
VARIABLES = re.compile(
    r"\b(?:HUSKY|HUSKY_SKIP_HOOKS|LEFTHOOK|SKIP|PRE_COMMIT_ALLOW_NO_CONFIG|GIT_CONFIG(?:_[A-Z0-9_]+)?"
    r"|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL))(?==)"
)
# Settings that run programs, leave checks out, or say who commits, or which branch a push without a name is for.
SETTINGS = (
    "user.*", "core.hookspath", "core.sshcommand", "core.editor", "core.pager", "alias.*", "credential.*", "filter.*",
    "include.*", "includeif.*", "gpg.*", "url.*", "remote.*.push", "remote.*.mirror", "remote.*.receivepack",
    "push.default", "branch.*.merge", "sequence.editor", "core.fsmonitor", "diff.external", "diff.*.command",
    "diff.*.textconv", "merge.*.driver", "commit.gpgsign", "tag.gpgsign",
)  # fmt: skip
CHECKED = {"commit", "push", "merge", "rebase", "am", "pull"}
PUSHING = {"push", "send-pack"}
# Letters of options that take what follows them: in -mnew no -n is meant.
VALUED = {"commit": "mFCctSu", "push": "o"}
# Options whose value may be anything: what it will be is no matter.
A_VALUE = {
    "commit": re.compile(r"-[aqsvezpo]*[mFCct]|--(?:message|file|author|date|reuse-message|reedit-message|fixup)\b=?"),
    "merge": re.compile(r"-[mF]|--(?:message|file)\b=?"),
}
OWN_VALUED = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source", "--super-prefix"}
PUSH_VALUED = ("--push-option", "--receive-pack", "--exec", "--repo", "--recurse-submodules")
CONFIG_VALUED = ("--file", "--blob", "--type", "--default", "--comment", "--value", "--url")
THE_BRANCH = re.compile(r"HEAD|@|\$\(\s*git (?:branch --show-current|rev-parse --abbrev-ref HEAD)\s*\)")


# What stands between two commands of which the second runs after the first one, or beside it.
BETWEEN = re.compile(r"(?:[ \t]*\d?>{1,2}[ \t]*(?:&\d|[\w./-]+(?![\w./-])))*(?:\s|\\\n)*(&&|;|\n|\|(?!\|))(?:\s|\\\n)*")
BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "index.lock")
MAKING = {"-b", "-B", "-c", "-C", "--create", "--force-create"}
NO_BRANCH = re.compile(r"\.\.|//|/\.|\.lock(?:/|\Z)|[./]\Z")  # in a name that git does not take for a branch


@hook("pre_tool_use", match=["shell", "mcp", "other"], timeout=2.0, description="rules for git")
def git_rules(event: Any) -> Any:
    call = call_of(event, HARMLESS_TOOLS)
    if call.fault is not None:
        return deny(call.fault)
    return strictest(of_command(line.text, line.folder, is_sure=line.is_sure) for line in call.lines)


def of_command(text: str, begin: str, *, is_sure: bool) -> Any:
    """Judge a command that runs in a folder; what cannot be read is denied where the tool is surely a shell."""
    try:
        found = [as_git(command) for command in commands(text)]
    except UnreadableCommandError as error:
        return (deny if is_sure else ask)(f"the command cannot be judged: {error}")
    ours = [command for command in found if command.program == "git"]
    for command in ours:
        if (reason := refusal(command)) is not None:
            return deny(reason)
    judged = [about for at in range(len(found)) if (about := of_branch(text, found, at, begin)) is not None]
    for about in judged:
        if about.verdict == "deny":
            return about
    if any(git_parts(command)[1] in CHECKED for command in ours):
        for command in found:
            if (reason := refusal_of_variables(command)) is not None:
                return deny(reason)
    is_hidden = re.search(r"=['\"]?git\b", text) is not None  # in a variable
    if any(map(is_open, ours)) or any(
        one.program is None and (is_hidden or re.search(r"\b(?:push|commit)\b", text if is_read(one) else one.text))
        for one in found
    ):
        return ask("which git command this is, is decided only when it runs")
    return judged[0] if judged else None


def is_read(command: Command) -> bool:
    """Return whether what runs is read from somewhere, and so may be any part of the text."""
    return not set("$`") & set(command.text)


def as_git(command: Command) -> Command:
    """Return git-push as `git push`, which it is."""
    name, _, verb = (command.program or "").partition("-")
    if name != "git" or not verb:
        return command
    return msgspec.structs.replace(command, program="git", arguments=(Word(verb), *command.arguments))


def is_open(command: Command) -> bool:
    """Return whether nobody can tell what git is told to do, or what it would push."""
    _, verb, rest = git_parts(command)
    words = command.arguments
    begin = len(words) - len(rest)
    for at, word in enumerate(words[:begin]):
        if not word.is_known and not (at and words[at - 1].text == "-C"):
            return True
    if verb in {"", "config"} | CHECKED | PUSHING and {"xargs", "parallel"} & set(command.within):
        return True
    unknown = [word.text for word in words[begin:] if not word.is_known]
    if verb in PUSHING:
        return not all(map(THE_BRANCH.fullmatch, unknown))
    if verb == "config":
        return bool(unknown) and not is_reading(rest)
    return verb in CHECKED and may_be_option(words[begin:], A_VALUE.get(verb))


def may_be_option(words: Sequence[Word], values: re.Pattern[str] | None) -> bool:
    """Return whether a word that is not known yet may be an option, since it is no option's value."""
    is_value = False
    for word in words:
        if is_value:
            is_value = False
            continue
        if word.text == "--":
            return False
        if values is not None and (named := values.match(word.text)) is not None:
            is_value = named.end() == len(word.text) and not word.text.endswith("=")
        elif not word.is_known:
            return True
    return False


def is_reading(rest: Sequence[str]) -> bool:
    """Return whether git config only reads; what stands behind the setting is a value."""
    words = iter(rest)
    for word in words:
        if word.startswith(("--get", "--list", "-l")):
            return True
        if not word.startswith("-"):
            return word in ("get", "list")
        if word == "-f" or any(begins(word, one) for one in CONFIG_VALUED):
            next(words, None)
    return False


def refusal_of_variables(command: Command) -> str | None:
    texts = [command.text.partition("git ")[0] if command.program == "git" else ""]
    if command.program in ("env", "export", "declare", "sudo"):
        texts += [word.text.partition("=")[0] + "=" for word in command.arguments if "=" in word.text]
    for text in texts:
        if (named := VARIABLES.search(text)) is not None:
            return f"{named[0]} leaves checks out, or says what git runs or who commits; a person sets that"
    return None


def of_branch(text: str, found: Sequence[Command], at: int, begin: str) -> Any:
    """Judge a push that names no branch, or the one that is checked out: deny where that one is protected."""
    command = found[at]
    _, verb, rest = git_parts(command)
    if command.program != "git" or verb not in PUSHING or not pushes_the_branch(rest):
        return None
    try:
        if "GIT_DIR" in text:
            raise ValueError("GIT_DIR says where the repository is")
        branches, is_sure = switched(text, found, at, begin)
        if not is_sure:
            branches += [branch_in(command, folder) for folder in command.folders(begin)]
    except (OSError, ValueError) as error:
        return ask(f"which branch is checked out cannot be told ({error}); name the one to push: git push origin NAME")
    for branch in branches:
        if branch is not None and any(fnmatchcase(branch, pattern) for pattern in PROTECTED_BRANCHES):
            return deny(
                f"{branch} is checked out, or may be, and is protected; push a branch of your own by its name "
                "(git push origin NAME) and open a pull request"
            )
    if "" in branches:
        return ask("which branch this pushes is decided only when it runs; name it: git push origin NAME")
    return None


def pushes_the_branch(rest: Sequence[str]) -> bool:
    options: list[str] = []
    named: list[str] = []
    words = iter(rest)
    for word in words:
        if word == "--":
            named += words
        elif not word.startswith("-"):
            named.append(word)
        else:
            options.append(word)
            is_short = not word.startswith("--") and word.find("o") == len(word) - 1
            if is_short or any(begins(word, one) for one in PUSH_VALUED):
                next(words, None)
    if named[1:]:
        is_ours = any(map(THE_BRANCH.fullmatch, named[1:]))
    else:
        is_ours = not any(begins(word, one) for word in options for one in ("--tags", "--delete")) and not any(
            "d" in letters_of(word, "push") for word in options
        )
    is_dry = any(begins(word, "--dry-run") or "n" in letters_of(word, "push") for word in options)
    return (is_ours and not is_dry) or any(word.startswith(("--no-d", "--no-t")) for word in options)


def switched(text: str, found: Sequence[Command], at: int, begin: str) -> tuple[list[str | None], bool]:
    """Return the branches that may be checked out by what stands before a push, and whether one of them surely is.

    "" stands for one that is decided only when it runs.
    """
    names: list[str | None] = []
    is_sure = False
    for place, command in enumerate(found[:at]):
        if command.program == "git":
            name = branch_made(command)
            marks = marks_between(text, found, place, at) if command.places == found[at].places else None
            if (
                name is not None
                and marks is not None
                and (
                    set(marks[place:]) == {"&&"}  # the push runs only where the branch was checked out
                    or (marks[:place] == [";"] * place and is_new(command, name, begin))  # which is done in any case
                )
            ):
                names[:], is_sure = [name], True
            else:
                names += branches_named(command)
    return names, is_sure


def branch_made(command: Command) -> str | None:
    """Return the branch that is checked out where this command succeeds, if that is plain to see."""
    words = [word for word in command.arguments if word.text not in ("-q", "--quiet", "-t", "--track", "--no-track")]
    name = ""
    match [word.text for word in words]:
        case ["checkout", "-b" | "-B", name, *start] | [
            "switch", "-c" | "-C" | "--create" | "--force-create", name, *start,
        ] if len(start) < 2 and not "".join(start).startswith("-"):  # fmt: skip
            pass
        case ["switch", name]:
            pass
        case _:
            return None
    return name if all(word.is_known for word in words) and re.fullmatch(r"\w[\w./-]*", name) else None


def branches_named(command: Command) -> Iterator[str]:
    """Yield the words of a command that may name the branch which it checks out."""
    _, verb, rest = git_parts(command)
    words = list(command.arguments[len(command.arguments) - len(rest) :])
    if verb == "checkout" and "--" in rest[:-1]:  # it takes files from there
        return
    named = [word for word in words if not word.text.startswith("-") or word.text == "-"]
    if verb == "rebase":
        named = named[1:][-1:]
    elif verb == "branch":
        named = named[-1:] if any(re.match("-[a-zA-Z]*[mM]|--mo", word) for word in rest) else []
    elif verb == "symbolic-ref" or (verb == "stash" and rest[:1] == ["branch"]):
        named = [Word(word.text.removeprefix("refs/heads/"), word.is_known) for word in named]
    elif verb in ("clone", "init") or (verb == "worktree" and rest[:1] == ["add"]):
        named = [Word("-")]  # another repository, of which nothing can be read yet
    elif verb in ("checkout", "switch"):
        joined = [word.text.partition("=")[2] or word.text[2:] for word in words if word not in named]
        named += [Word(one) for one in joined if one]
    else:
        return
    for word in named:
        yield word.text if word.is_known and word.text != "-" and "@{" not in word.text else ""


def marks_between(text: str, found: Sequence[Command], place: int, at: int) -> list[str] | None:
    """Return what stands between the commands up to one of them, "&&", "|" or ";", where all run in the same shell.

    None if that is not plain to see.
    """
    if found[place].within or found[at].within or git_parts(found[at])[1] != found[at].arguments[0].text:
        return None
    end, last = 0, ""
    marks: list[str] = []
    for number, command in enumerate(found[: at + 1]):
        between = BETWEEN.match(text, end)
        follows = end if not number else between.end() if between else -1
        if not command.within and command.text and follows >= 0 and text.startswith(command.text, follows):
            marks += [";" if between[1] == "\n" else between[1]] if number and between else []
            end, last = follows + len(command.text), command.text
        elif number in (place, at) or (not command.within and command.text not in last):
            return None
        elif number:
            marks.append(marks[-1] if marks else ";")  # it stands in a word of the last one, or is run by that
    return marks


def is_new(command: Command, name: str, begin: str) -> bool:
    """Return whether a branch is made that is none yet, so that nothing keeps git from making it."""
    told = [word.text for word in command.arguments]
    if NO_BRANCH.search(name) or name != told[-1] or not MAKING.intersection(told) or "-t" in told or "--track" in told:
        return False
    for folder in command.folders(begin):
        place = git_folder(folder) if folder is not None else None
        if place is None or any(is_there(os.path.join(place, one)) for one in BUSY):
            return False
        if is_there(common := os.path.join(place, "commondir")):  # of a worktree
            with open(common, encoding="utf-8") as file:
                place = os.path.join(place, file.read(4096).strip())
        parts = name.split("/")
        above = ["/".join(parts[:at]) for at in range(1, len(parts))]
        if is_there(os.path.join(place, "refs/heads", name)) or is_there(os.path.join(place, "reftable")):
            return False
        if any(os.path.isfile(os.path.join(place, "refs/heads", one)) for one in above):
            return False
        if is_there(packed := os.path.join(place, "packed-refs")):
            with open(packed, encoding="utf-8") as file:
                named = [line.partition(" refs/heads/")[2].rstrip("\n") for line in file]
            if any(one == name or one in above or one.startswith(f"{name}/") for one in named):
                return False
    return True


def is_there(path: str) -> bool:
    """Return whether there is a file or folder.  Raises OSError if that cannot be told."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def branch_in(command: Command, folder: str | None) -> str | None:
    """Return the branch that is checked out where a command of git works; raise if that cannot be told."""
    _, _, rest = git_parts(command)
    own = command.arguments[: len(command.arguments) - len(rest) - 1]
    if folder is None or not all(word.is_known for word in own):
        raise ValueError("its folder is decided only when it runs")
    words, place = iter(own), None
    for word in words:
        name, mark, value = word.text.partition("=")
        if name in OWN_VALUED and not mark:
            value = next(words, word).text
        if name == "-C":
            folder = os.path.join(folder, os.path.expanduser(value))
        elif name == "--git-dir":
            place = os.path.expanduser(value)
    return branch_of(folder) if place is None else head_of(os.path.join(folder, place))


def branch_of(folder: str) -> str | None:
    """Return the branch that is checked out in a folder's repository; None if there is none."""
    place = git_folder(folder)
    return None if place is None else head_of(place)


def git_folder(folder: str) -> str | None:
    """Return where the repository of a folder keeps its HEAD; None if it has none."""
    folder = os.path.realpath(folder)
    while True:
        place = os.path.join(folder, ".git")
        if is_there(place) and os.path.isfile(place):  # of a worktree, or a submodule
            with open(place, encoding="utf-8") as file:
                place = os.path.join(folder, file.read(4096).removeprefix("gitdir:").strip())
        if is_there(os.path.join(place, "HEAD")):
            return place
        if os.path.dirname(folder) == folder:
            return None
        folder = os.path.dirname(folder)


def head_of(place: str) -> str | None:
    """Return the branch that a repository's HEAD names; None if it names a commit.  Raises if it says neither."""
    head = os.path.join(place, "HEAD")
    if os.path.islink(head):
        text = f"ref: {os.readlink(head)}"
    else:
        with open(head, encoding="utf-8") as file:
            text = file.read(4096).strip()
    named = re.fullmatch(r"ref:\s*refs/heads/(.+)", text)
    if (named is None or named[1] == ".invalid") and not re.fullmatch("[0-9a-f]{40,64}", text):
        raise ValueError(f"{head} names no branch")
    return named[1] if named is not None else None


def refusal(command: Command) -> str | None:
    settings, verb, rest = git_parts(command)
    for setting in settings:
        if is_setting(setting):
            return f"git -c {setting} changes what git runs or who commits; a person sets that"
    if verb == "config":
        named = [word for word in rest if not word.startswith("-")]
        if any(begins(word, one) for word in rest for one in ("--edit", "--remove-section", "--rename-section")) or (
            "-e" in rest or rest[:1] in (["edit"], ["remove-section"], ["rename-section"])
        ):
            return "git config would change many settings, also what git runs or who commits; a person sets that"
        if not is_reading(rest) and (len(named) > 1 or rest[-1:] != named or any("--unset" in one for one in rest)):
            for word in named:  # a file or a type may stand before it
                if is_setting(word):
                    return f"git config {word} changes what git runs or who commits; a person sets that"
    if verb in CHECKED and any(len(word) > 5 and one.startswith(word) for word in rest for one in AROUND_CHECKS):
        return "the project's own checks are not to be left out; mend what they find"
    if verb == "commit" and any("n" in letters_of(word, verb) for word in rest):
        return "the project's own checks are not to be left out (-n); mend what they find"
    if verb in PUSHING:
        return refusal_of_push(verb, rest)
    return None


def refusal_of_push(verb: str, rest: list[str]) -> str | None:
    for word in rest:
        if (len(word) > 4 and "--force".startswith(word)) or "f" in letters_of(word, verb) or begins(word, "--mirror"):
            return "a forced push overwrites what others pushed; use --force-with-lease on a branch of your own"
    named = [word for word in rest if not word.startswith("-")]
    if any(begins(word, "--all") or begins(word, "--branches") for word in rest):
        return "this pushes every branch, the protected ones too; name one of your own"
    for ref in named[1:]:
        if ref.startswith("+"):
            return "a forced push overwrites what others pushed; use --force-with-lease on a branch of your own"
        branch = ref.rpartition(":")[2].removeprefix("refs/").removeprefix("heads/")
        if ref == ":":
            return "this pushes every branch that is on both sides, the protected ones too; name one of your own"
        if "*" in branch or any(fnmatchcase(branch, pattern) for pattern in PROTECTED_BRANCHES):
            return f"{branch} is protected; push a branch of your own and open a pull request"
    return None


def letters_of(word: str, verb: str) -> str:
    """Return the letters of options in a word, without what one of them takes: "a" of -am, nothing of -mnew."""
    if not word.startswith("-") or word.startswith("--"):
        return ""
    valued = VALUED.get(verb, "")
    return re.split(f"[{valued}]", word[1:], maxsplit=1)[0] if valued else word[1:]


def begins(word: str, option: str) -> bool:
    """Return whether a word is an option, or the beginning of it, which git takes too."""
    return len(word) > 3 and option.startswith(word)


def is_setting(text: str) -> bool:
    return any(fnmatchcase(text.partition("=")[0].lower(), pattern) for pattern in SETTINGS)
