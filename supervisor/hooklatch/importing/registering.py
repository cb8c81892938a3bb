"""The conversion of imported hooks to definitions for a session of Reasonix.  Opens no file.

An unusable hook becomes a definition that states its problem.  Once that is registered, the gate of the hook denies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import EVERY_GATE
from hooklatch.core.limits import MAX_HOOKS
from hooklatch.dialects.reasonix import REASONIX
from hooklatch.importing.collecting import ImportedHook
from hooklatch.importing.documents import UnreadableFileError, read_hooks
from hooklatch.importing.reasonix import MILLISECONDS, NAMES
from hooklatch_worker.author.failures import make_printable

if TYPE_CHECKING:
    from hooklatch.core.answers import SettingsAnswer, SettingsNote

__all__ = ["read_definitions"]

MAX_BYTES = 2**18  # of a file: a longer one does not hold settings, and reading it would block the daemon
MAX_NOTES = 200
WORDS: Final = {event.feeds[0].event: name for name, event in REASONIX.events.items()}
STATED = ("match", "description", "enabled", "observe")  # the keys that a definition with a problem keeps


def read_definitions(source: str, data: bytes, scope: str | None = None) -> SettingsAnswer:
    """Read a settings file; return the definitions of its hooks, and notes on lost and different parts."""
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
    dropped_notes = [note for note in imported.notes if note.is_dropped]
    if dropped_notes:  # their gates are unknown, so a hook that denies is registered for every gate
        place = f"{dropped_notes[0].place} (line {imported.line_of(dropped_notes[0].place)})"
        more = f"; {len(dropped_notes) - 1} more like it" if dropped_notes[1:] else ""
        problem = f"{place}: {dropped_notes[0].text}{more}; fix it or take it out"
        hooks.append({"event": EVERY_GATE, "problem": make_printable(problem)})
    notes = [
        make_note(hook.place, imported.line_of(hook.place), hook.problem, red=True)
        for hook in imported.hooks
        if hook.problem is not None
    ]
    notes += [
        make_note(note.place, imported.line_of(note.place), note.text, red=note.is_dropped or note.is_slip)
        for note in sorted(imported.notes, key=lambda note: not (note.is_dropped or note.is_slip))
    ]
    if len(notes) > MAX_NOTES:
        notes[MAX_NOTES:] = [make_note("", 0, f"{len(notes) - MAX_NOTES} more notes were left out", red=False)]
    return {"hooks": hooks, "notes": notes}


def make_note(place: str, line: int, text: str, *, red: bool) -> SettingsNote:
    return {"place": make_printable(place), "line": line, "text": make_printable(text), "red": red}


def make_definition(hook: ImportedHook, line: int, scope: str | None) -> dict[str, Any]:
    settings = dict(hook.settings)
    hook_id, event, match = settings.pop("id"), settings.pop("event"), settings.pop("match", None)
    # In Reasonix only tool events have a matcher; with another event, the definition uses our name of the event.
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
    kept_keys = {key: definition[key] for key in ("id", "event", *STATED) if key in definition}
    return {**kept_keys, "problem": make_printable(f"{place}: {hook.problem}")}


def format_pattern(match: str | list[str] | dict[str, Any]) -> object:
    """Return a matcher as text in Reasonix's form if it can be expressed, otherwise unchanged."""
    if isinstance(match, dict):
        return match["regex"] if match.keys() == {"regex"} else match
    names = match if isinstance(match, list) else [match]
    return "|".join(names) if all(map(NAMES.fullmatch, names)) else names
