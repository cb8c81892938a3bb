"""The tables that only the main file may contain: how the daemon runs, overrides, personalities, and products' own.

The active settings are kept in the state file too, so that a daemon that starts with a broken configuration is not
weaker than it was with the last good one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hooklatch.core.hooks.definitions import HookDefinition, Priority, Timeout
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher, compile_re2
from hooklatch.core.hooks.snapshots import MAX_BUDGET
from hooklatch.core.tables import InvalidTableError
from hooklatch.core.text import read_duration
from hooklatch.record.settings import MIB, Durability, PayloadMode, RecordSettings
from hooklatch_worker.wire import Isolation

__all__ = [
    "AskTable", "DaemonTable", "IsolationTable", "Level", "RecordTable", "Settings", "StateTable", "make_absolute",
    "MainTable", "Override", "OverrideTable", "PersonalityTable", "TableEffect",
]  # fmt: skip

MAX_PATHS = 16 * 1024  # bytes of `write` and `read` together: they are sent in one datagram with each fork
HOUR = 3600.0
DEFAULT = RecordSettings()

Level: TypeAlias = Literal["standard", "restricted", "strict"]  # as in ISOLATION_LEVELS
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Number: TypeAlias = Annotated[float, Meta(gt=0, lt=2**40)]
FilePath: TypeAlias = Annotated[str, Meta(min_length=1, extra={"is": "a path"})]


class Settings(msgspec.Struct, frozen=True):
    """The settings of the daemon.  `metrics_port` is a port of 127.0.0.1; without any metrics target there are none.

    `keeps_state`: shared state survives the daemon.  `fleet` are the settings of [fleet], as its product reads them;
    without them this host is in none.  `ask_wait` is the number of seconds that an ask waits for a person; 0: it goes
    to the host.  The ask of a host that can ask a person itself goes to the host too, unless `asks_for_all`.
    `notify` are the settings of [ask.notify], as its product reads them.  `is_halting`: a call that ran although it was
    refused ends the work of its session.
    """

    record: RecordSettings = RecordSettings()
    isolation: Isolation = Isolation()
    metrics_port: int | None = None
    metrics_file: str | None = None
    keeps_state: bool = False
    fleet: dict[str, Any] | None = None
    ask_wait: float = 0.0
    asks_for_all: bool = True
    notify: dict[str, Any] | None = None
    is_halting: bool = False


class DaemonTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[daemon]: when a decision counts as recorded, where metrics are served, and what an overruled call does."""

    record: Durability = "written"
    metrics_port: Annotated[int, Meta(gt=0, lt=65536, extra={"is": "a port from 1 to 65535"})] | None = None
    metrics_file: FilePath | None = None
    on_overruled: Annotated[
        Literal["report", "halt"],
        Meta(description='"halt": where a call ran although it was refused, the next gates of its session deny.'),
    ] = "report"


class RecordTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[record]: how much is kept and for how long, and which parts of a payload are never stored.

    `skipping`: events that no hook listens to may be recorded by their counts.
    """

    segment_mib: Number = DEFAULT.segment_bytes / MIB
    segment_hours: Number = DEFAULT.segment_age / HOUR
    keep_mib: Number = DEFAULT.keep_bytes / MIB
    keep_days: Number = DEFAULT.keep_age / HOUR / 24
    excerpt_bytes: Annotated[int, Meta(ge=0, le=64 * 1024)] = DEFAULT.excerpt_bytes
    redact: tuple[Text, ...] = DEFAULT.redact
    redact_text: tuple[Text, ...] = DEFAULT.redact_text
    low_mib: Number = DEFAULT.low_bytes / MIB
    critical_mib: Number = DEFAULT.critical_bytes / MIB
    full_mib: Number = DEFAULT.full_bytes / MIB
    payloads: Annotated[PayloadMode, Meta(description='"full": payloads are kept whole, for replay.')] = (
        DEFAULT.payloads
    )
    payloads_keep_mib: Number = DEFAULT.payloads_bytes / MIB
    payloads_keep_days: Number = DEFAULT.payloads_age / HOUR / 24
    skipping: bool = DEFAULT.skipping

    def __post_init__(self) -> None:
        check_patterns("redact", self.redact, lambda pattern: compile_matcher({"glob": pattern.lower()}))
        check_patterns("redact_text", self.redact_text, compile_re2)
        if not self.full_mib <= self.critical_mib <= self.low_mib:
            raise InvalidTableError(
                "full_mib must be at most critical_mib, and critical_mib at most low_mib", ("full_mib",)
            )
        if self.segment_mib > self.keep_mib:
            raise InvalidTableError("segment_mib must be at most keep_mib", ("segment_mib",))

    def settings(self, durability: Durability, fleet: dict[str, Any] | None) -> RecordSettings:
        return RecordSettings(
            durability=durability, segment_bytes=int(self.segment_mib * MIB), segment_age=self.segment_hours * HOUR,
            keep_bytes=int(self.keep_mib * MIB), keep_age=self.keep_days * 24 * HOUR, excerpt_bytes=self.excerpt_bytes,
            redact=self.redact, redact_text=self.redact_text, low_bytes=int(self.low_mib * MIB),
            critical_bytes=int(self.critical_mib * MIB), full_bytes=int(self.full_mib * MIB),
            keep_unshipped_bytes=fleet["keep_unshipped_bytes"] if fleet is not None else None,
            payloads=self.payloads, payloads_bytes=int(self.payloads_keep_mib * MIB),
            payloads_age=self.payloads_keep_days * 24 * HOUR, skipping=self.skipping,
        )  # fmt: skip


class IsolationTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[isolation]: what the kernel lets a worker do."""

    level: Level = "standard"
    if_unavailable: Literal["refuse", "report"] = "refuse"
    write: list[FilePath] = []
    read: list[FilePath] = []
    network: bool = False

    def settings(self, folder: str) -> Isolation:
        """Return the isolation that workers are started with; relative paths are relative to `folder`.

        Raises:
            InvalidTableError: the paths are too long.
        """
        write, read = ([make_absolute(path, folder) for path in paths] for paths in (self.write, self.read))
        if sum(len(os.fsencode(path)) for path in (*write, *read)) > MAX_PATHS:
            reason = f"write and read have more than {MAX_PATHS} bytes of paths; name the folders above them instead"
            raise InvalidTableError(reason)
        return Isolation(self.level, self.if_unavailable == "refuse", write, read, self.network)


class StateTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[state]: whether the shared state of hooks outlives the daemon."""

    kept: bool = False


class AskTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[ask]: how long an ask of a hook waits for a person, in seconds or as a duration; 0: it goes to the host.

    `agents`: whose asks wait: those of all, or only of those that are unable to ask a person themselves.  `notify` is
    a product's table.
    """

    wait: Annotated[float, Meta(ge=0, le=MAX_BUDGET)] | str = 0.0
    agents: Literal["all", "unable"] = "all"
    notify: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.wait, str):
            try:
                seconds = read_duration(self.wait)
            except ValueError as error:
                raise InvalidTableError(f"wait is wrong: {error}", ("wait",)) from None
            if seconds > MAX_BUDGET:
                text = f"wait must be at most {MAX_BUDGET:.0f} s, the longest time of a whole fire, not {self.wait}"
                raise InvalidTableError(text, ("wait",))

    @property
    def seconds(self) -> float:
        return read_duration(self.wait) if isinstance(self.wait, str) else self.wait


def check_patterns(key: str, patterns: tuple[str, ...], compile_pattern: Callable[[str], object]) -> None:
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except MatcherError as error:
            raise InvalidTableError(f"{key} is wrong: {error}", (key,)) from None


def make_absolute(path: str, folder: str) -> str:
    """Return the absolute form of a path in a file in `folder`; `~` is the user's home."""
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


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

    `hooks` are built-in ones, and `levels` the isolation of their sources, by location.  `fleet` and `notify` are
    `Settings` of those names, in JSON's terms: the state file keeps them.
    """

    hooks: list[HookDefinition] = []
    levels: dict[str, str] = {}
    fleet: dict[str, Any] | None = None
    notify: dict[str, Any] | None = None


class MainTable(NamedTuple):
    """A table of the main file, as a product reads it: its keys, and what they add.

    `read` gets the table and the folder of the file, and raises InvalidTableError.
    """

    struct: type[msgspec.Struct]
    read: Callable[[Any, str], TableEffect]
