"""Another system's settings file, dropped into hooks.d as it is.  Knows how it reads as ours; opens no file.

Claude Code's `settings.json` and Reasonix's hold commands by event.  They are read anew at each change, as TOML is.
A gate of theirs that cannot run as it stands is not left out: it stands inactive, and so denies until it is mended.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import msgspec

from hooklatch.core.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.importing.collecting import ImportedHook
from hooklatch.importing.documents import UnreadableFileError, read_hooks
from hooklatch.service.configuration import ConfigError, Diagnostic, FileConfig

__all__ = ["ENDING", "read_settings"]

logger = logging.getLogger("hooklatch.settings")
ENDING = ".json"


def read_settings(path: str, data: bytes) -> FileConfig:
    """Read a settings file's hooks.

    Raises:
        ConfigError: it is no such file.
    """
    try:
        imported = read_hooks(path, data)
    except UnreadableFileError as error:
        raise ConfigError(Diagnostic(path, 0, str(error))) from None
    for note in imported.notes:
        logger.info("%s", note, extra={"file": path})
    stem = os.path.basename(path).removesuffix(ENDING)
    return FileConfig(path, hooks=[found for hook in imported.hooks for found in definitions(path, stem, hook)])


def definitions(path: str, stem: str, hook: ImportedHook) -> Iterator[HookDefinition]:
    settings: dict[str, Any] = {**hook.settings, "id": f"{stem}:{hook.settings['id']}"}
    if hook.problem is not None:
        settings.pop("match", None)
    try:
        found = read_definition(settings, is_lenient=True)
    except InvalidHookError as error:
        raise ConfigError(Diagnostic(path, 0, f"{hook.place}: {error}")) from None
    for definition in found:
        yield msgspec.structs.replace(definition, problem=definition.problem or hook.problem)
