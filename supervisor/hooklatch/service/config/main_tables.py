"""The tables that only the main file may contain, besides settings: [[override]], [personality.NAME], products' own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hooklatch.core.hooks.builtin_sources import SHELL, BuiltinSource
from hooklatch.core.hooks.definitions import HookDefinition, Priority, Timeout
from hooklatch.products import SOURCES, ProductError, list_products, load_product
from hooklatch_worker.wire import Source

__all__ = ["MainTable", "Override", "OverrideTable", "PersonalityTable", "TableEffect", "find_builtin_source"]


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


class TableEffect(msgspec.Struct, frozen=True):
    """The additions of a product's table to the main file.

    `hooks` are built-in ones, and `levels` the isolation of their sources, by location.  `fleet` are the settings of
    this host in its fleet, in JSON's terms: the state file keeps them.
    """

    hooks: list[HookDefinition] = []
    levels: dict[str, str] = {}
    fleet: dict[str, Any] | None = None


class MainTable(NamedTuple):
    """A table of the main file, as a product reads it: its keys, and what they add.

    `read` gets the table and the folder of the file, and raises InvalidTableError.
    """

    struct: type[msgspec.Struct]
    read: Callable[[Any, str], TableEffect]


def find_builtin_source(source: Source) -> BuiltinSource | None:
    """Return the differences of a source of ours or of a product; None for a user's source.

    A product that cannot be loaded gets no more rights than a user's source.
    """
    if source == SHELL.source:
        return SHELL
    try:
        is_of_product = source.kind == "module" and source.location in list_products(SOURCES)
        return load_product(SOURCES, source.location, BuiltinSource) if is_of_product else None
    except ProductError:
        return None
