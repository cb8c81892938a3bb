"""The reader of another system's hooks at run time: a settings file that is in hooks.d, or a session's.  Opens no file.

Claude Code's `settings.json` and Reasonix's list commands by event.  They are read again at each change, like TOML.
A hook that cannot run is not left out: if its event is known, it becomes an inactive hook, so that a gate denies until
the file is fixed.  An entry that cannot be read at all becomes a diagnostic.

An unusable hook of a session becomes a definition that states its problem.  Once that is registered, the gate denies.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.hooks.registry import EVERY_GATE
from hooklatch.core.limits import MAX_HOOKS
from hooklatch.dialects.reasonix import REASONIX
from hooklatch.importing.collecting import ImportedHook
from hooklatch.importing.documents import UnreadableFileError, read_hooks
from hooklatch.importing.reasonix import MILLISECONDS, NAMES
from hooklatch.service.config.configuration import ConfigError, Diagnostic, FileConfig, ForeignFile
from hooklatch_worker.author.failures import make_printable

if TYPE_CHECKING:
    from hooklatch.core.answers import SettingsAnswer, SettingsNote

__all__ = ["SETTINGS", "read_settings", "read_definitions"]

logger = logging.getLogger("hooklatch.settings")
ENDING = ".json"


def read_settings(path: str, data: bytes) -> FileConfig:
    """Read a settings file's hooks.

    Raises:
        ConfigError: it is not a settings file.
    """
    try:
        imported = read_hooks(path, data)
    except UnreadableFileError as error:
        raise ConfigError(Diagnostic(path, 0, str(error))) from None
    for note in imported.notes:
        logger.info("%s", note, extra={"file": path})
    stem = os.path.basename(path).removesuffix(ENDING)
    return FileConfig(
        path,
        hooks=[
            definition
            for hook in imported.hooks
            for definition in define_imported_hooks(path, stem, hook, imported.line_of(hook.place))
        ],
        diagnostics=[
            Diagnostic(path, imported.line_of(note.place), str(note), is_red=note.is_dropped)
            for note in imported.notes
            if note.is_dropped or note.is_slip
        ],
    )


def define_imported_hooks(path: str, stem: str, hook: ImportedHook, line: int) -> Iterator[HookDefinition]:
    settings: dict[str, Any] = {**hook.settings, "id": f"{stem}:{hook.settings['id']}"}
    if hook.problem is not None:
        settings["problem"] = f"{hook.place}: {hook.problem}"
    try:
        definitions = read_definition(settings, is_lenient=True)
    except InvalidHookError as error:
        raise ConfigError(Diagnostic(path, line, f"{hook.place}: {error}")) from None
    for definition in definitions:
        yield msgspec.structs.replace(definition, line=line)


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


SETTINGS = ForeignFile(read_settings, read_definitions)
