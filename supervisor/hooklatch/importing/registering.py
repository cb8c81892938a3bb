"""Writes imported hooks as definitions for a session of Reasonix, readable by people.  Reads no file itself.

What cannot be used becomes a definition that states its problem: where that is registered, what it guards is denied.
"""

from __future__ import annotations

from typing import Any, Final

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import EVERY_GATE
from hooklatch.core.limits import MAX_HOOKS
from hooklatch.dialects.systems.reasonix import REASONIX
from hooklatch.importing.collecting import ImportedHook
from hooklatch.importing.documents import UnreadableFileError, read_hooks
from hooklatch.importing.reasonix import MILLISECONDS, NAMES
from hooklatch_worker.author.failures import make_printable

__all__ = ["read_definitions"]

MAX_BYTES = 2**18  # of a file: longer ones are no settings, and reading them would keep the daemon from its work
MAX_NOTES = 200
WORDS: Final = {event.feeds[0].event: name for name, event in REASONIX.events.items()}
STATED = ("match", "description", "enabled", "observe")  # of a hook that cannot run


def read_definitions(source: str, data: bytes, scope: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Read a settings file; return the definitions of its hooks, and notes on what is lost or different."""
    try:
        if len(data) > MAX_BYTES:
            raise UnreadableFileError(f"{source} takes {len(data)} bytes; {MAX_BYTES} are allowed")
        imported = read_hooks(source, data, may_lack_hooks=True)
        if len(imported.hooks) > MAX_HOOKS:
            raise UnreadableFileError(f"{source} has {len(imported.hooks)} hooks; {MAX_HOOKS} are allowed")
    except UnreadableFileError as error:
        problem = make_printable(str(error))
        return {"hooks": [{"event": EVERY_GATE, "problem": problem}], "notes": [make_note("", 0, problem, red=True)]}
    hooks = [make_definition(hook, imported.line_of(hook.place), scope) for hook in imported.hooks]
    lost = [found for found in imported.notes if found.is_dropped]
    if lost:  # nobody knows which gate they were for, so one that denies stands at each
        place = f"{lost[0].place} (line {imported.line_of(lost[0].place)})"
        more = f"; {len(lost) - 1} more like it" if lost[1:] else ""
        problem = f"{place}: {lost[0].text}{more}; mend it or take it out"
        hooks.append({"event": EVERY_GATE, "problem": make_printable(problem)})
    notes = [
        make_note(hook.place, imported.line_of(hook.place), hook.problem, red=True)
        for hook in imported.hooks
        if hook.problem is not None
    ]
    notes += [
        make_note(found.place, imported.line_of(found.place), found.text, red=found.is_dropped or found.is_slip)
        for found in sorted(imported.notes, key=lambda found: not (found.is_dropped or found.is_slip))
    ]
    if len(notes) > MAX_NOTES:
        notes[MAX_NOTES:] = [make_note("", 0, f"{len(notes) - MAX_NOTES} more notes were left out", red=False)]
    return {"hooks": hooks, "notes": notes}


def make_note(place: str, line: int, text: str, *, red: bool) -> dict[str, Any]:
    return {"place": make_printable(place), "line": line, "text": make_printable(text), "red": red}


def make_definition(hook: ImportedHook, line: int, scope: str | None) -> dict[str, Any]:
    settings = dict(hook.settings)
    hook_id, event, match = settings.pop("id"), settings.pop("event"), settings.pop("match", None)
    # There a matcher is for tools alone; on any other event it is kept by our own name of the event.
    is_native = event in WORDS and (match is None or Catalogue.standard()[event].match == "tool_name")
    definition: dict[str, Any] = {"event": WORDS[event] if is_native else event}
    if match is not None:
        definition["match"] = format_pattern(match) if is_native else match
    if is_native and "timeout" in settings:
        milliseconds = round(settings["timeout"] / MILLISECONDS, 3)
        settings["timeout"] = int(milliseconds) if milliseconds.is_integer() else milliseconds
    definition |= {**settings, "id": f"{hook_id}@{scope}" if scope else hook_id}
    if hook.problem is None:
        return definition
    place = f"{hook.place} (line {line})" if line else hook.place
    kept = {key: definition[key] for key in ("id", "event", *STATED) if key in definition}
    return {**kept, "problem": make_printable(f"{place}: {hook.problem}")}


def format_pattern(match: str | list[str] | dict[str, Any]) -> object:
    """Return a matcher as text in Reasonix's form, where it is one; otherwise as it is."""
    if isinstance(match, dict):
        return match["regex"] if match.keys() == {"regex"} else match
    names = match if isinstance(match, list) else [match]
    return "|".join(names) if all(map(NAMES.fullmatch, names)) else names
