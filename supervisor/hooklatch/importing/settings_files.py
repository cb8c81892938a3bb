"""The reader of another system's settings file that is in hooks.d unchanged.  Opens no file.

Claude Code's `settings.json` and Reasonix's list commands by event.  They are read again at each change, like TOML.
A hook that cannot run is not left out: if its event is known, it becomes an inactive hook, so that a gate denies until
the file is fixed.  An entry that cannot be read at all becomes a diagnostic.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import msgspec

from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.importing.collecting import ImportedHook
from hooklatch.importing.documents import UnreadableFileError, read_hooks
from hooklatch.importing.registering import read_definitions
from hooklatch.service.config.configuration import ConfigError, Diagnostic, FileConfig, ForeignFile

__all__ = ["SETTINGS", "read_settings"]

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


SETTINGS = ForeignFile(read_settings, read_definitions)
