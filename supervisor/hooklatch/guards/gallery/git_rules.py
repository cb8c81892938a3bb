"""Refuse pushes to protected branches, forced pushes, and ways around checks.

This file is yours: change the lists.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from hooklatch import ask, deny, hook
from hooklatch.guards import (
    Command,
    UnreadableCommandError,
    Word,
    call_of,
    commands,
    git_options,
    git_parts,
    is_of_person,
    strictest,
)
from hooklatch.guards.git_commands import find_git_places, refs_pushed, strange_program
from hooklatch.guards.git_repositories import is_free, read_branch, read_head
from hooklatch.guards.unseen import may_be

# Globs of tools that this guard passes, such as "mcp__notes__*".  Hosts' own tools that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()
PROTECTED_BRANCHES = ("main", "master", "trunk", "production", "release/*")
AROUND_CHECKS = ("--no-verify", "--no-gpg-sign")
# Variables that leave checks out, change settings, or say who commits.
VARIABLES = re.compile(
    r"\b(?:HUSKY|HUSKY_SKIP_HOOKS|LEFTHOOK|SKIP|PRE_COMMIT_ALLOW_NO_CONFIG|GIT_CONFIG(?:_[A-Z0-9_]+)?"
    r"|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL))(?==)"
)
CHECKED = {"commit", "push", "merge", "rebase", "am", "pull"}
SHORT_AROUND = {"commit", "am"}  # to which -n is --no-verify
PUSHING = {"push", "send-pack"}
# Options whose value may be anything, so it need not be known.
A_VALUE = {
    "commit": re.compile(r"-[aqsvezpo]*[mFCct]|--(?:message|file|author|date|reuse-message|reedit-message|fixup)\b=?"),
    "merge": re.compile(r"-[mF]|--(?:message|file)\b=?"),
}
OF_GIT = re.compile(r"""\b(?:push|commit)\b|(?<==)git\b|(?<=='|=")git\b""")  # in what is not known until it runs
CONFIG_VALUED = ("--file", "--blob", "--type", "--default", "--comment", "--value", "--url")
FORCED = "a forced push overwrites what others pushed; use --force-with-lease on a branch of your own"
FORCE = re.compile(r"(?<=\s)(?:-f|--force)(?!\S)")
MAX_INSTEAD = 500  # characters of a command that a denial can name
THE_BRANCH = re.compile(r"HEAD|@|\$\(\s*git (?:branch --show-current|rev-parse --abbrev-ref HEAD)\s*\)")


# The text between two commands of which the second runs after the first one, or beside it.
BETWEEN = re.compile(r"(?:[ \t]*\d?>{1,2}[ \t]*(?:&\d|[\w./-]+(?![\w./-])))*(?:\s|\\\n)*(&&|;|\n|\|(?!\|))(?:\s|\\\n)*")
MAKING = {"-b", "-B", "-c", "-C", "--create", "--force-create"}
NO_BRANCH = re.compile(r"\.\.|//|/\.|\.lock(?:/|\Z)|[./]\Z")  # in a name that git does not take for a branch


@hook("pre_tool_use", match=["shell", "mcp", "other"], timeout=2.0, description="rules for git")
def git_rules(event: Any) -> Any:
    call = call_of(event, HARMLESS_TOOLS)
    if call.fault is not None:
        return deny(call.fault)
    return strictest(judge_text(line.text, line.folder, is_sure=line.is_sure) for line in call.lines)


def judge_text(text: str, begin: str, *, is_sure: bool) -> Any:
    """Judge a command that runs in a folder; deny an unreadable one if the tool is surely a shell, else ask."""
    try:
        script = [rewrite_as_git(command) for command in commands(text)]
    except UnreadableCommandError as error:
        return (deny if is_sure else ask)(f"the command cannot be judged: {error}")
    ours = [command for command in script if command.program == "git"]
    for command in ours:
        if (reason := find_refusal(command)) is not None:
            is_gentler = reason == FORCED and is_sure
            return deny(reason, instead=find_gentle_push(text, begin) if is_gentler else None)
    answers = [
        answer for at in range(len(script)) if (answer := judge_current_branch(text, script, at, begin)) is not None
    ]
    for answer in answers:
        if answer.verdict == "deny":
            return answer
    if any(git_parts(command)[1] in CHECKED for command in ours):
        for command in script:
            if (reason := find_variable_refusal(command)) is not None:
                return deny(reason)
    if any(map(is_open, ours)) or any(may_be(command, text, OF_GIT) for command in script):
        return ask("the git command that this runs is decided only when it runs")
    return answers[0] if answers else None


def find_gentle_push(text: str, begin: str) -> str | None:
    """Return the command with --force-with-lease in place of its force, if that would pass; else None."""
    gentle, count = FORCE.subn("--force-with-lease", text.strip())
    may_run = count == 1 and len(gentle) <= MAX_INSTEAD and judge_text(gentle, begin, is_sure=True) is None
    return gentle if may_run else None


def rewrite_as_git(command: Command) -> Command:
    """Return `git-push` as `git push`, which it runs."""
    name, _, verb = (command.program or "").partition("-")
    if name != "git" or not verb:
        return command
    return msgspec.structs.replace(command, program="git", arguments=(Word(verb), *command.arguments))


def is_open(command: Command) -> bool:
    """Return whether it is unknown what git would do, or what it would push."""
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
    """Return whether a word that is not known yet may be an option, since it is not the value of one."""
    is_value = False
    for word in words:
        if is_value:
            is_value = False
            continue
        if word.text == "--":
            return False
        if values is not None and (match := values.match(word.text)) is not None:
            is_value = match.end() == len(word.text) and not word.text.endswith("=")
        elif not word.is_known:
            return True
    return False


def is_reading(rest: Sequence[str]) -> bool:
    """Return whether git config only reads; a word behind the setting is a value."""
    words = iter(rest)
    for word in words:
        if word.startswith(("--get", "--list", "-l")):
            return True
        if not word.startswith("-"):
            return word in ("get", "list")
        if word == "-f" or any(is_option_beginning(word, option) for option in CONFIG_VALUED):
            next(words, None)
    return False


def find_variable_refusal(command: Command) -> str | None:
    texts = [command.text.partition("git ")[0] if command.program == "git" else ""]
    if command.program in ("env", "export", "declare", "sudo"):
        texts += [word.text.partition("=")[0] + "=" for word in command.arguments if "=" in word.text]
    for text in texts:
        if (match := VARIABLES.search(text)) is not None:
            return f"{match[0]} leaves checks out, or says what git runs or who commits; a person sets that"
    return None


def judge_current_branch(text: str, script: Sequence[Command], at: int, begin: str) -> Any:
    """Judge a push of the branch that is checked out, named or not: deny if that branch is protected."""
    command = script[at]
    if command.program != "git" or git_parts(command)[1] not in PUSHING or not is_pushing_branch(command):
        return None
    try:
        if "GIT_DIR" in text:
            raise ValueError("GIT_DIR says where the repository is")
        branches, is_sure = list_switched_branches(text, script, at, begin)
        if not is_sure:
            branches += [find_branch(command, folder) for folder in command.folders(begin)]
    except (OSError, ValueError) as error:
        return ask(f"the branch that is checked out is unknown ({error}); name the one to push: git push origin NAME")
    for branch in branches:
        if branch is not None and any(fnmatchcase(branch, pattern) for pattern in PROTECTED_BRANCHES):
            return deny(
                f"{branch} is protected, and is or may be checked out; push a branch of your own by its name "
                "(git push origin NAME) and open a pull request"
            )
    if "" in branches:
        return ask("the branch that this pushes is decided only when it runs; name it: git push origin NAME")
    return None


def is_pushing_branch(command: Command) -> bool:
    options = git_options(command)
    if refs := refs_pushed(options):
        is_named = any(THE_BRANCH.fullmatch(word.text) for word in refs)
    else:
        is_named = not options.has("--tags", "-d", "--delete")
    is_undone = any(option.name.startswith(("--no-d", "--no-t")) for option in options.options)
    return (is_named and not options.has("-n", "--dry-run")) or is_undone


def list_switched_branches(text: str, script: Sequence[Command], at: int, begin: str) -> tuple[list[str | None], bool]:
    """Return the branches that commands before a push may check out, and whether one of them surely is checked out.

    "" stands for a branch that is decided only when it runs.
    """
    names: list[str | None] = []
    is_sure = False
    for place, command in enumerate(script[:at]):
        if command.program == "git":
            name = find_made_branch(command)
            marks = list_marks_between(text, script, place, at) if command.places == script[at].places else None
            if (
                name is not None
                and marks is not None
                and (
                    set(marks[place:]) == {"&&"}  # the push runs only where the branch was checked out
                    or (marks[:place] == [";"] * place and is_new(command, name, begin))  # it cannot fail
                )
            ):
                names[:], is_sure = [name], True
            else:
                names += list_named_branches(command)
    return names, is_sure


def find_made_branch(command: Command) -> str | None:
    """Return the branch that this command checks out if it succeeds; None if its words do not say so plainly."""
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


def list_named_branches(command: Command) -> Iterator[str]:
    """Yield the words of a command that may name the branch which it checks out."""
    _, verb, rest = git_parts(command)
    words = list(command.arguments[len(command.arguments) - len(rest) :])
    if verb == "checkout" and "--" in rest[:-1]:  # it takes files from there
        return
    branch_words = [word for word in words if not word.text.startswith("-") or word.text == "-"]
    if verb == "rebase":
        branch_words = branch_words[1:][-1:]
    elif verb == "branch":
        branch_words = branch_words[-1:] if any(re.match("-[a-zA-Z]*[mM]|--mo", word) for word in rest) else []
    elif verb == "symbolic-ref" or (verb == "stash" and rest[:1] == ["branch"]):
        branch_words = [Word(word.text.removeprefix("refs/heads/"), word.is_known) for word in branch_words]
    elif verb in ("clone", "init") or (verb == "worktree" and rest[:1] == ["add"]):
        branch_words = [Word("-")]  # another repository, of which nothing can be read yet
    elif verb in ("checkout", "switch"):
        joined = [word.text.partition("=")[2] or word.text[2:] for word in words if word not in branch_words]
        branch_words += [Word(name) for name in joined if name]
    else:
        return
    for word in branch_words:
        yield word.text if word.is_known and word.text != "-" and "@{" not in word.text else ""


def list_marks_between(text: str, script: Sequence[Command], place: int, at: int) -> list[str] | None:
    """Return the signs between the commands up to one of them, "&&", "|" or ";", if all run in the same shell.

    Return None if the text does not show that.
    """
    if script[place].within or script[at].within or git_parts(script[at])[1] != script[at].arguments[0].text:
        return None
    end, last = 0, ""
    marks: list[str] = []
    for number, command in enumerate(script[: at + 1]):
        between = BETWEEN.match(text, end)
        follows = end if not number else between.end() if between else -1
        if not command.within and command.text and follows >= 0 and text.startswith(command.text, follows):
            marks += [";" if between[1] == "\n" else between[1]] if number and between else []
            end, last = follows + len(command.text), command.text
        elif number in (place, at) or (not command.within and command.text not in last):
            return None
        elif number:
            marks.append(marks[-1] if marks else ";")  # it is in a word of the last command, or that command runs it
    return marks


def is_new(command: Command, name: str, begin: str) -> bool:
    """Return whether a command makes a branch whose name is free, so that nothing keeps git from making it."""
    words = [word.text for word in command.arguments]
    if NO_BRANCH.search(name) or name != words[-1] or not MAKING & set(words) or {"-t", "--track"} & set(words):
        return False
    return all(folder is not None and is_free(folder, name) for folder in command.folders(begin))


def find_branch(command: Command, folder: str | None) -> str | None:
    """Return the branch that is checked out where a command of git works; raise if it is unknown."""
    _, _, rest = git_parts(command)
    own = command.arguments[: len(command.arguments) - len(rest) - 1]
    if folder is None or not all(word.is_known for word in own):
        raise ValueError("its folder is decided only when it runs")
    folders, place = find_git_places(command)
    folder = os.path.join(folder, *map(os.path.expanduser, folders))
    return read_branch(folder) if place is None else read_head(os.path.join(folder, os.path.expanduser(place)))


def find_refusal(command: Command) -> str | None:
    settings, verb, rest = git_parts(command)
    options = git_options(command)
    for setting in settings:
        if is_of_person(setting):
            return f"git -c {setting} changes what git runs or who commits; a person sets that"
    if (program := strange_program(command)) is not None:
        return f"git {verb} would run {program} in place of git's own program; a person decides that"
    if verb in ("init", "clone") and options.has("--template"):
        return f"git {verb} --template adds hooks that git runs; a person sets that"
    if verb == "config":
        return find_config_refusal(rest)
    if verb in CHECKED and (options.has(*AROUND_CHECKS) or (verb in SHORT_AROUND and options.has("-n"))):
        return (
            "the project's own checks must run; fix what they report, then run this without the option that skips them"
        )
    return find_push_refusal(options) if verb in PUSHING else None


def find_config_refusal(rest: Sequence[str]) -> str | None:
    operands = [word for word in rest if not word.startswith("-")]
    if any(
        is_option_beginning(word, flag) for word in rest for flag in ("--edit", "--remove-section", "--rename-section")
    ) or ("-e" in rest or rest[:1] in (["edit"], ["remove-section"], ["rename-section"])):
        return "git config would change many settings, also what git runs or who commits; a person sets that"
    if not is_reading(rest) and (
        len(operands) > 1 or rest[-1:] != operands or any("--unset" in option for option in rest)
    ):
        for word, value in itertools.pairwise([*operands, ""]):  # a file or a type may stand before it
            if is_of_person(f"{word}={value}"):
                return f"git config {word} changes what git runs or who commits; a person sets that"
    return None


def find_push_refusal(options: Any) -> str | None:
    if options.has("-f", "--force", "--mirror"):
        return FORCED
    if options.has("--all", "--branches"):
        return "this pushes every branch, the protected ones too; name one of your own"
    for word in refs_pushed(options):
        ref = word.text
        if ref.startswith("+"):
            return FORCED
        branch = ref.rpartition(":")[2].removeprefix("refs/").removeprefix("heads/")
        if ref == ":":
            return "this pushes every branch that is on both sides, the protected ones too; name one of your own"
        if "*" in branch or any(fnmatchcase(branch, pattern) for pattern in PROTECTED_BRANCHES):
            return f"{branch} is protected; push a branch of your own and open a pull request"
    return None


def is_option_beginning(word: str, option: str) -> bool:
    """Return whether a word is an option or the beginning of it, which git accepts too."""
    return len(word) > 2 and option.startswith(word)
