"""A reader of Claude Code's groups of handlers, and of the parts that Reasonix's entries have too."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.text import suggest_name
from hooklatch.hosts.own_entries import is_entry_alone
from hooklatch.importing.collecting import Collector, list_strings, suggest_key
from hooklatch_worker.runtime.shell_forms import CLAUDE_NAMES

__all__ = [
    "note_missing_variables", "recognise_event", "read_command_target", "DIFFERENCES", "EVENTS", "KIND", "read_group",
]  # fmt: skip

SHELLS = {"bash": "bash", "sh": "sh", "zsh": "zsh"}
VARIABLE = re.compile(r"\$\{?((?:CLAUDE|REASONIX)_[A-Z0-9_]+)")
VITAL = ("CLAUDE_PLUGIN_", "REASONIX_")  # paths; without one a command cannot find its own files
CLOSE = 0.82  # similarity at which a name of an event counts as a misspelling of another


def read_command_target(
    entry: Mapping[str, Any], known: frozenset[str], *, expanded: Collection[str] = ()
) -> tuple[dict[str, Any], str | None]:
    """Return the keys of the command (a line for a shell, which may be named, or a program with arguments), or a
    problem.

    `known` are the valid keys of an entry; `expanded` are variables that the other system itself expands when there is
    no shell.
    """
    command, arguments, shell = entry.get("command"), entry.get("args"), entry.get("shell")
    if not isinstance(command, str) or not command.strip():
        if "command" in entry:
            return {}, f"its command is {command!r:.80}, which cannot be run"
        return {}, f"it has no command{suggest_misspelt_keys(entry, known)}"
    if arguments is None:
        if shell is None:
            return {"command": command}, None
        if not isinstance(shell, str) or shell not in SHELLS:
            return {}, f"it is for the shell {shell!r}, which may be missing here"
        return {"argv": [SHELLS[shell], "-c", command]}, None
    words: object = arguments
    if not isinstance(words, list) or not all(isinstance(word, str) for word in cast("list[object]", words)):
        return {}, f"args is a list of strings, not {arguments!r}"
    argv = [command, *cast("list[str]", words)]
    placeholders = [f"${{{name}}}" for name in expanded]
    if any(placeholder in word for word in argv for placeholder in placeholders):
        return {"command": "exec " + " ".join(quote_word(word, placeholders) for word in argv)}, None
    return {"argv": argv}, None


def suggest_misspelt_keys(entry: Iterable[str], known: frozenset[str]) -> str:
    unknown = [key for key in entry if key not in known]
    return "".join(f"; {key!r} is not known here{near}" for key in unknown if (near := suggest_key(key, known)))


def quote_word(word: str, placeholders: Iterable[str]) -> str:
    """Quote a word for a shell, leaving placeholders to be expanded."""
    for placeholder in placeholders:
        if placeholder in word:
            return f'"{placeholder}"'.join(shlex.quote(part) if part else "" for part in word.split(placeholder))
    return shlex.quote(word)


def note_missing_variables(
    settings: Mapping[str, Any], provided: Collection[str], place: str, collector: Collector
) -> str | None:
    """Note variables that the command uses and that are not set here; return a problem if it cannot run without one."""
    line = [settings.get(key, "") for key in ("command", "argv")]
    named = {name for text in list_strings(line) for name in VARIABLE.findall(text)}
    for name in sorted(named - set(provided) - set(settings.get("env", {}))):
        if name.startswith(VITAL):
            return f'it needs ${name}, which is not set here: add env = {{ {name} = "..." }}'
        collector.note(place, f"it uses ${name}, which is not set here")
    return None


def recognise_event(event: str, known: Iterable[str]) -> tuple[str | None, str | None]:
    """Return the event that is most likely meant, or None, and the problem of the name, or None."""
    if event in (names := list(known)):
        return event, None
    by_letters = {reduce_to_letters(name): name for name in names}
    near = get_close_matches(reduce_to_letters(event), by_letters, 1, CLOSE)
    meant = by_letters[near[0]] if near else None
    return meant, f"there is no event here for {event!r}" + (f"; did you mean {meant!r}?" if meant else "")


def reduce_to_letters(name: str) -> str:
    """Return a name without case and punctuation, so that `pre_tool_use` equals PreToolUse."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


KIND = "claude"
EVENTS = {theirs: ours for ours, theirs in CLAUDE_NAMES.items()}
GROUP_KEYS = frozenset({"matcher", "hooks", "event", "description"})
HANDLER_KEYS = frozenset(
    {
        "type", "command", "args", "timeout", "shell", "async", "asyncRewake", "onFailure", "if", "once",
        "statusMessage", "description", "amends", "only_judges",
    }
)  # fmt: skip
# Claude Code ignores matchers on these.
UNMATCHED = frozenset({"UserPromptSubmit", "Stop", "TeammateIdle", "TaskCreated", "TaskCompleted", "PostToolBatch"})
DEFAULT_TIMEOUT = 600.0  # seconds
# All SessionEnd hooks share 1.5 s there.
DEFAULT_TIMEOUTS = {"UserPromptSubmit": 30.0, "PreModelSwitch": 30.0, "SessionEnd": None}
NAMES = re.compile(r"[A-Za-z0-9_ ,|-]*")  # a matcher of only these characters is a name or a list of names
PROVIDED = frozenset({"CLAUDE_PROJECT_DIR"})
DIFFERENCES = (
    "a command that cannot start, is killed or times out refuses on a gate here; Claude Code goes on",
    "the output of a command must be empty or one JSON answer: other text refuses on a gate; for a command that prints"
    ' other text, write output = "exit"',
    "commands run in a clean environment; set other variables with env = { NAME = ... }",
    f"a time limit of {DEFAULT_TIMEOUT:g} s is Claude Code's default; with a smaller one a hung guard refuses sooner",
)


def read_group(event: str, group: Mapping[str, Any], place: str, collector: Collector) -> None:
    """Read one matcher and its handlers."""
    collector.kinds.append(KIND)
    name, problem = recognise_event(event, EVENTS)
    if name is None:
        collector.lose(place, str(problem))
        return
    handlers, matcher = group.get("hooks"), group.get("matcher")
    if "hooks" not in group:
        problem = problem or f"it has no hooks{suggest_misspelt_keys(group, GROUP_KEYS)}"
    elif not isinstance(handlers, list):
        problem = problem or f"its hooks are a list of handlers, not {handlers!r:.80}"
    elif matcher is not None and not isinstance(matcher, str):
        problem = problem or f"its matcher is a string, not {matcher!r:.80}"
    if problem is not None:
        collector.keep(place, event, {"event": EVENTS[name]}, problem, entry=group)
        return
    collector.note_unused(place, group, GROUP_KEYS)
    for number, handler in enumerate(cast("list[object]", handlers), 1):
        inside = f"{place}.hooks[{number}]"
        if is_entry_alone(handler):
            collector.own += 1
        elif isinstance(handler, Mapping):
            read_handler(event, matcher, cast("Mapping[str, Any]", handler), inside, collector)
        else:
            collector.keep(
                inside, event, {"event": EVENTS[event]}, f"it is {handler!r:.80}, not a handler", entry=handler
            )


def read_handler(event: str, matcher: str | None, handler: Mapping[str, Any], place: str, collector: Collector) -> None:
    kind = handler.get("type", "command")
    target, unusable = read_command_target(handler, HANDLER_KEYS, expanded=PROVIDED)
    if kind != "command":
        hint = suggest_name(str(kind), ["command"]) or "; only commands can"
        target, unusable = {}, f"a handler of type {kind!r:.80} cannot run here{hint}"
    if unusable is None:
        collector.note_unused(place, handler, HANDLER_KEYS)
    settings: dict[str, Any] = {"event": EVENTS[event], **target}
    match, problem = read_claude_matcher(event, matcher, place, collector)
    if match is not None:
        settings["match"] = match
    settings |= {"payload": "claude", "output": "json"}
    # With this key Claude Code does what happens here anyway, except for exit codes that the advisory table passes.
    if handler.get("onFailure") != "block":
        settings["exit_codes"] = "advisory"
    timeout = DEFAULT_TIMEOUTS.get(event, DEFAULT_TIMEOUT)
    if "timeout" in handler:
        timeout = collector.seconds(place, handler["timeout"], 1.0, timeout)
    if timeout is not None:
        settings["timeout"] = timeout
    if isinstance(handler.get("description"), str):
        settings["description"] = handler["description"]
    collector.read_own_keys(place, handler, settings)
    if handler.get("async") is True or handler.get("asyncRewake") is True:
        make_notification_only(settings, place, collector)
    if handler.get("once") is True:
        collector.note(place, "'once' has no counterpart: it runs every time")
    if "statusMessage" in handler:
        collector.note(place, "'statusMessage' is not shown here")
    if "if" in handler:
        problem = (
            f"it runs only if {handler['if']!r} there, and there is no such condition here: narrow match, or have the"
            " command look at its input"
        )
    problem = unusable or problem or note_missing_variables(settings, PROVIDED, place, collector)
    collector.keep(place, event, settings, problem, entry=handler)


def read_claude_matcher(event: str, matcher: str | None, place: str, collector: Collector) -> tuple[object, str | None]:
    """Read a matcher: nothing or "*" matches all, then names and lists of names, else a regex that is searched."""
    if matcher in (None, "", "*"):
        return None, None
    if event in UNMATCHED:
        collector.note(place, f"the matcher {matcher!r} has no effect on {event}, there or here")
        return None, None
    if Catalogue.standard()[EVENTS[event]].match is None:
        return None, f"{EVENTS[event]} has nothing to match {matcher!r} on: here it would run every time"
    if not NAMES.fullmatch(matcher):
        return {"regex": matcher, "search": True}, None
    names = [name.strip() for name in re.split(r"[|,]", matcher) if name.strip()]
    if not names:
        return None, f"the matcher {matcher!r} names nothing, so it never ran"
    return names[0] if len(names) == 1 else names, None


def make_notification_only(settings: dict[str, Any], place: str, collector: Collector) -> None:
    """Keep a command that runs asynchronously there from deciding here."""
    text = "it is async there; here it is waited for"
    if Catalogue.standard()[settings["event"]].fails_closed:
        settings["observe"] = True
        text += ", and observe = true keeps it from refusing, as there"
    collector.note(place, text)
