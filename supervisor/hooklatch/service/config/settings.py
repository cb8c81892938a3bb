"""The tables that say how the daemon itself runs: [daemon], [record], [isolation], [state].  Knows keys and values.

They stand in the main configuration file only.  What is in force is kept in the state file too, so that a daemon which
starts with a broken configuration is not weaker than the last good one was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from hooklatch.core.hooks.definitions import InvalidHookError, refuse_unknown_keys
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher, compile_re2
from hooklatch.record.settings import MIB, RecordSettings
from hooklatch_worker.wire import ISOLATION_LEVELS, Isolation

__all__ = ["SETTINGS_TABLES", "Settings", "choice", "read_settings_tables"]

SETTINGS_TABLES = ("daemon", "record", "isolation", "state")
DAEMON_KEYS = ("record", "metrics_port", "metrics_file")
RECORD_SIZES = {
    "segment_mib": "segment_bytes", "keep_mib": "keep_bytes", "low_mib": "low_bytes", "critical_mib": "critical_bytes",
    "full_mib": "full_bytes",
}  # fmt: skip
RECORD_KEYS = (*RECORD_SIZES, "segment_hours", "keep_days", "excerpt_bytes", "redact", "redact_text")
ISOLATION_KEYS = ("level", "if_unavailable", "write", "read", "network")
MAX_EXCERPT = 64 * 1024  # bytes
MAX_PATHS = 16 * 1024  # bytes of `write` and `read` together: they travel in one datagram with each fork


class Settings(msgspec.Struct, frozen=True):
    """How the daemon runs.  `metrics_port` is one of 127.0.0.1; None and None: no metrics are given.

    `keeps_state`: what hooks remember outlives the daemon.
    """

    record: RecordSettings = RecordSettings()
    isolation: Isolation = Isolation()
    metrics_port: int | None = None
    metrics_file: str | None = None
    keeps_state: bool = False


def read_settings_tables(document: Mapping[str, Any], folder: str) -> Settings:
    """Read the four tables; relative paths are relative to `folder`, and `~` is the user's home.

    Raises:
        InvalidHookError: what is wrong.
    """
    daemon, record, isolation, state = (table_of(document, name) for name in SETTINGS_TABLES)
    refuse_unknown_keys(daemon, DAEMON_KEYS, "[daemon]")
    durability = choice(daemon, "record", ("written", "sync"), "written")
    port = daemon.get("metrics_port")
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise InvalidHookError("", f"metrics_port is a port from 1 to 65535, not {port!r}")
    file = daemon.get("metrics_file")
    if file is not None and (not isinstance(file, str) or not file):
        raise InvalidHookError("", f"metrics_file is a path, not {file!r}")
    return Settings(
        record=msgspec.structs.replace(read_record(record), durability=durability),
        isolation=read_isolation(isolation, folder),
        metrics_port=port,
        metrics_file=whole(file, folder) if file is not None else None,
        keeps_state=read_state(state),
    )


def read_state(table: Mapping[str, Any]) -> bool:
    refuse_unknown_keys(table, ("kept",), "[state]")
    kept: object = table.get("kept", False)
    if not isinstance(kept, bool):
        raise InvalidHookError("", f"kept is true or false, not {kept!r}")
    return kept


def table_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, Mapping):
        raise InvalidHookError("", f"write [{name}], with one bracket")
    return cast("Mapping[str, Any]", table)


def read_record(table: Mapping[str, Any]) -> RecordSettings:
    refuse_unknown_keys(table, RECORD_KEYS, "[record]")
    values: dict[str, Any] = {name: int(number(table, key) * MIB) for key, name in RECORD_SIZES.items() if key in table}
    if "segment_hours" in table:
        values["segment_age"] = number(table, "segment_hours") * 3600
    if "keep_days" in table:
        values["keep_age"] = number(table, "keep_days") * 24 * 3600
    if "excerpt_bytes" in table:
        size: object = table["excerpt_bytes"]
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_EXCERPT:
            raise InvalidHookError("", f"excerpt_bytes is a whole number from 0 to {MAX_EXCERPT}, not {size!r}")
        values["excerpt_bytes"] = size
    for key in ("redact", "redact_text"):
        if key in table:
            values[key] = tuple(texts(table, key))
    for key, compile_one in (("redact", compile_glob), ("redact_text", compile_re2)):
        for pattern in values.get(key, ()):
            try:
                compile_one(pattern)
            except MatcherError as error:
                raise InvalidHookError("", f"{key} is wrong: {error}") from None
    settings = RecordSettings(**values)
    if not settings.full_bytes <= settings.critical_bytes <= settings.low_bytes:
        raise InvalidHookError("", "full_mib is at most critical_mib, and that at most low_mib")
    if settings.segment_bytes > settings.keep_bytes:
        raise InvalidHookError("", "segment_mib is at most keep_mib")
    return settings


def compile_glob(pattern: str) -> None:
    compile_matcher({"glob": pattern.lower()})


def read_isolation(table: Mapping[str, Any], folder: str) -> Isolation:
    refuse_unknown_keys(table, ISOLATION_KEYS, "[isolation]")
    network: object = table.get("network", False)
    if not isinstance(network, bool):
        raise InvalidHookError("", f"network is true or false, not {network!r}")
    write, read = ([whole(path, folder) for path in texts(table, key)] for key in ("write", "read"))
    if sum(len(path.encode()) for path in (*write, *read)) > MAX_PATHS:
        raise InvalidHookError(
            "", f"write and read hold at most {MAX_PATHS} bytes of paths; name the folders above them"
        )
    return Isolation(
        level=choice(table, "level", ISOLATION_LEVELS, "standard"),
        is_required=choice(table, "if_unavailable", ("refuse", "report"), "refuse") == "refuse",
        write=write,
        read=read,
        network=network,
    )


def choice(table: Mapping[str, Any], key: str, allowed: Sequence[str], default: str) -> Any:
    value = table.get(key, default)
    if value not in allowed:
        raise InvalidHookError("", f"{key} is one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def number(table: Mapping[str, Any], key: str) -> float:
    value: object = table[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**40:
        raise InvalidHookError("", f"{key} is a number over 0, not {value!r}")
    return float(value)


def texts(table: Mapping[str, Any], key: str) -> list[str]:
    value: object = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in cast("list[object]", value)):
        raise InvalidHookError("", f"{key} is a list of texts, not {value!r}")
    return cast("list[str]", value)


def whole(path: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
