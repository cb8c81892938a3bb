"""The tables that only the main configuration file may hold: [[override]], [personality.NAME], [lsp], and settings.

Knows their keys and values; knows no file and no hook that is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

import msgspec

from hooklatch.core.hooks.definitions import InvalidHookError, read_changes, refuse_unknown_keys
from hooklatch.service.config.settings import SETTINGS_TABLES, Settings, choice, read_settings_tables
from hooklatch_worker.lsp import diagnostics
from hooklatch_worker.wire import ISOLATION_LEVELS

__all__ = ["MAIN_TABLES", "MainTables", "Override", "read_main_tables"]

T = TypeVar("T")
MAIN_TABLES = ("override", "personality", "lsp", *SETTINGS_TABLES)
CHANGES = ("enabled", "priority", "timeout", "observe", "optional", "amends")


class Override(msgspec.Struct, frozen=True):
    """An operator's word over a plugin's or a built-in hook."""

    id: str
    changes: dict[str, Any]
    line: int = 0


class MainTables(msgspec.Struct, frozen=True):
    """What these tables say; `lsp` is the config of the built-in hook, None where it is off.

    Language servers write caches where they like, so [isolation] does not hold for them: `lsp_isolation` does.
    """

    overrides: list[Override] = []
    personalities: dict[str, list[str]] = {}
    lsp: dict[str, Any] | None = None
    lsp_isolation: str = "standard"
    settings: Settings = Settings()


class Checked(Protocol):
    """Turns what is wrong with a table into a place in the file."""

    def __call__(self, table: str, index: int | None, entry: object, read: Callable[[], T]) -> T: ...


def read_main_tables(
    document: Mapping[str, Any],
    tables: Callable[[Mapping[str, Any], str], list[Any]],
    checked: Checked,
    header: Callable[[str, int], int],
    folder: str,
) -> MainTables:
    """Read the three tables of a document; `header` gives the line at which one with two brackets begins."""
    personalities: object = document.get("personality", {})
    if not isinstance(personalities, Mapping):
        checked("personality", None, personalities, lambda: refuse("write [personality.NAME] for each personality"))
    named = cast("Mapping[str, Any]", personalities)
    return MainTables(
        overrides=[
            msgspec.structs.replace(
                checked("override", index, entry, lambda entry=entry: read_override(entry)),  # type: ignore[misc]
                line=header("override", index),
            )
            for index, entry in enumerate(tables(document, "override"))
        ],
        personalities={
            name: checked(f"personality.{name}", None, entry, lambda entry=entry: read_personality(entry))  # type: ignore[misc]
            for name, entry in named.items()
        },
        lsp=checked("lsp", None, document["lsp"], lambda: read_lsp(document["lsp"])) if "lsp" in document else None,
        lsp_isolation=dict_of(document.get("lsp")).get("isolation", "standard"),
        settings=checked(
            next((name for name in SETTINGS_TABLES if name in document), ""),
            None,
            {key: value for name in SETTINGS_TABLES for key, value in dict_of(document.get(name)).items()},
            lambda: read_settings_tables(document, folder),
        ),
    )


def dict_of(table: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", table) if isinstance(table, Mapping) else {}


def refuse(message: str) -> None:
    raise InvalidHookError("", message)


def read_override(entry: object) -> Override:
    if not isinstance(entry, Mapping):
        raise InvalidHookError("", "an override is a table")
    table = cast("Mapping[str, Any]", entry)
    refuse_unknown_keys(table, ("id", *CHANGES), "an override")
    hook_id = table.get("id")
    if not isinstance(hook_id, str) or not hook_id:
        raise InvalidHookError("", 'an override needs id = "acme-plugin.audit"')
    return Override(hook_id, read_changes({key: table[key] for key in CHANGES if key in table}, hook_id))


def read_personality(entry: object) -> list[str]:
    if not isinstance(entry, Mapping):
        raise InvalidHookError("", "a personality is a table")
    table = cast("Mapping[str, Any]", entry)
    refuse_unknown_keys(table, ("plugins",), "a personality")
    plugins: object = table.get("plugins")
    if not isinstance(plugins, list) or not all(isinstance(name, str) for name in cast("list[object]", plugins)):
        raise InvalidHookError("", f'plugins is a list of names like ["acme-plugin"], not {plugins!r}')
    return cast("list[str]", plugins)


def read_lsp(entry: object) -> dict[str, Any] | None:
    if not isinstance(entry, Mapping):
        raise InvalidHookError("", "write [lsp], with one bracket")
    table = dict(cast("Mapping[str, Any]", entry))
    refuse_unknown_keys(
        table, [*(field.name for field in msgspec.structs.fields(diagnostics.Config)), "isolation"], "[lsp]"
    )
    choice(table, "isolation", ISOLATION_LEVELS, "standard")
    table.pop("isolation", None)
    try:
        config = diagnostics.read_config(table)
    except ValueError as error:
        named = re.search(r"`\$\.(\w+)", str(error))
        raise InvalidHookError("", f"{named[1]} is wrong: {error}" if named else str(error)) from None
    return {**table, "timeout": config.timeout} if config.enabled else None
