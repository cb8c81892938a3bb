"""The tables besides settings that only the main file may contain: [[override]], [personality.NAME], [lsp]."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hooklatch.core.hooks.definitions import Priority, Timeout
from hooklatch.service.config.settings import Level
from hooklatch_worker.lsp import diagnostics

__all__ = ["LspTable", "Override", "OverrideTable", "PersonalityTable"]


class Override(msgspec.Struct, frozen=True):
    """The operator's changes of a plugin's or a built-in hook."""

    id: str
    changes: dict[str, Any]
    line: int = 0


class OverrideTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """[[override]]: the operator's changes of a hook that a plugin or the daemon provides."""

    id: Annotated[str, Meta(min_length=1, examples=["acme-plugin.audit"])]
    enabled: bool | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    timeout: Timeout | UnsetType = UNSET
    observe: bool | UnsetType = UNSET
    optional: bool | UnsetType = UNSET
    amends: bool | UnsetType = UNSET
    only_judges: bool | UnsetType = UNSET

    def override(self, line: int) -> Override:
        changes = msgspec.structs.asdict(self)
        return Override(changes.pop("id"), {key: value for key, value in changes.items() if value is not UNSET}, line)


class PersonalityTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[personality.NAME]: the plugins of a personality."""

    plugins: Annotated[
        list[str], Meta(examples=[["acme-plugin"]], extra={"is": 'a list of names like ["acme-plugin"]'})
    ]


class LspTable(diagnostics.Config, frozen=True, forbid_unknown_fields=True):
    """[lsp]: the built-in hook that shows a language server's diagnostics, and how its servers are isolated."""

    isolation: Level = "standard"

    def config(self) -> dict[str, Any] | None:
        """Return the config of the built-in hook, None if it is off."""
        table = {name: getattr(self, name) for name in diagnostics.Config.__struct_fields__}
        return table if self.enabled else None
