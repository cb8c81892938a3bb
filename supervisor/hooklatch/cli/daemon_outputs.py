"""The shapes that commands about the daemon itself print with `--json`.  The daemon or a command makes the values.

Times are seconds since 1970 and durations seconds, unless a name ends in `_ms`; sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hooklatch.core.health import HealthFinding, HealthWarning
from hooklatch.core.messages import ChainHead
from hooklatch.fleet.host.following import AppliedVersion
from hooklatch.processes.environments import EnvironmentStatus
from hooklatch.processes.pool_limits import PoolStatus
from hooklatch.processes.supervisor import ChildStatus
from hooklatch.record.findings import VerifyReport
from hooklatch.service.config.toml_document import Diagnostic
from hooklatch.service.loading.reloader import ReloadResult
from hooklatch.service.registry.failure_log import FailingHook
from hooklatch.service.registry.statistics import HookTimings

__all__ = ["OUTPUTS"]


class ServeOutput(msgspec.Struct, kw_only=True):
    """`serve`: one line, when the daemon accepts clients; `log` is the log file of a detached one.

    `wrong` has the findings that make it red, each with its remedy: gates that a finding is about deny.
    """

    agent: str
    admin: str
    pid: int
    revision: int
    wrong: list[HealthFinding]
    ready: Literal[True]
    log: str | None = None


class StopOutput(msgspec.Struct):
    """`stop`: the daemon has ended, after so many `seconds`."""

    stopped: Literal[True]
    pid: int
    seconds: float


class HealthOutput(msgspec.Struct):
    """`health`: the daemon's health in a word, and one code for each kind of problem."""

    health: Literal["ready", "red", "draining"]
    reasons: list[str]
    revision: int
    version: str


class SuspensionOutput(msgspec.Struct):
    """A suspension of a hook or a plugin, or (null) of all hooks."""

    hook: str | None
    since: float
    until: float
    reason: str
    seconds_left: float


class ShippingOutput(msgspec.Struct):
    """The part of the record that the fleet's engine has, that waits for it, and that was lost before."""

    shipped_seq: int | None
    waiting_records: int | None
    waiting_bytes: int | None
    lost_records: int
    lost_bytes: int
    lost: list[dict[str, Any]]


class PayloadStatus(msgspec.Struct):
    """The counts of payloads that were kept whole, and that could not be, and the `fault` if there is one now."""

    kept: int
    unkept: int
    fault: str | None


class RecordStatusOutput(msgspec.Struct):
    """The decision record: its place, its newest entry, and its faults."""

    folder: str
    durability: str
    head: ChainHead
    segment: str
    segments: int
    bytes: int
    stage: str
    free_bytes: int | None
    reserve_bytes: int
    unrecorded: dict[str, int]
    faults: list[str]
    warnings: list[str]
    synced_seq: int
    sync_age_s: float
    syncs: int
    payloads: PayloadStatus
    shipping: ShippingOutput | None


class TimingsOutput(msgspec.Struct):
    """The durations of hooks and events, by their names."""

    hooks: dict[str, HookTimings]
    events: dict[str, HookTimings]


class HookMarkOutput(msgspec.Struct):
    """A hook that is not enforced as others are."""

    hook: str
    mark: Literal["observe", "optional", "disabled"]


class PluginStatus(msgspec.Struct):
    """An installed plugin and the ids of its hooks."""

    name: str
    module: str
    package: str | None
    fault: str | None
    hooks: list[str]


class ProjectStatus(msgspec.Struct):
    """A trusted project."""

    folder: str
    state: Literal["idle", "changed", "loaded"]
    files: int
    hooks: list[str]
    sessions: int


class IsolationDefault(msgspec.Struct):
    """The level of [isolation], and paths in it that do not exist."""

    level: str
    absent: list[str]


class StateOfSource(msgspec.Struct):
    """The size of the shared state of a source's hooks."""

    layer: str
    within: str
    source: str
    keys: int
    bytes: int


class SharedStateOutput(msgspec.Struct):
    """The size of all hooks' shared state, and the folder in which it is kept."""

    keys: int
    bytes: int
    kept_in: str | None
    sources: list[StateOfSource]


class FleetStatus(msgspec.Struct):
    """The state of this host in its fleet."""

    name: str | None
    host: str | None
    labels: list[str]
    head: dict[str, Any]
    wanted: AppliedVersion | None
    applied: AppliedVersion | None
    stale_s: float | None
    contact_at: float | None
    is_stale: bool
    max_staleness_s: float | None
    when_stale: str | None
    denies: bool
    links: int
    counts: dict[str, int]
    problems: list[str]


class ZygoteOutput(msgspec.Struct):
    """The process that workers are forked from."""

    pid: int | None
    restarts: int


class StatusOutput(msgspec.Struct):
    """`status`: everything about a running daemon; red (`wrong`) and yellow (`warned`) findings have their remedies."""

    version: str
    pid: int
    uptime_s: float
    health: Literal["green", "red"]
    wrong: list[HealthFinding]
    suspended: list[SuspensionOutput]
    problems: list[Diagnostic]
    faults: list[str]
    warnings: list[str]
    warned: list[HealthWarning]
    quarantined: list[str]
    failing: list[FailingHook]
    revision: int
    digest: str
    record: RecordStatusOutput
    hooks: int
    sessions: int
    draining: bool
    connections: int
    fired: int
    skipped: dict[str, int]
    verdicts: dict[str, int]
    failures: dict[str, int]
    dropped: dict[str, int]
    asks: int
    timings: TimingsOutput
    marks: list[HookMarkOutput]
    plugins: list[PluginStatus]
    personalities: dict[str, list[str]]
    projects: list[ProjectStatus]
    isolation: IsolationDefault
    state: SharedStateOutput
    fleet: FleetStatus | None
    sources: list[PoolStatus]
    files: dict[str, str]
    environments: list[EnvironmentStatus]
    zygote: ZygoteOutput
    tree: list[ChildStatus]
    path: str
    places: dict[str, str]


class Tree(msgspec.Struct):
    """`status --tree`: the daemon's own parts."""

    health: Literal["green", "red"]
    tree: list[ChildStatus]


class NoDaemon(msgspec.Struct):
    """`status` without a daemon: the end of the last one, and its time."""

    health: Literal["stopped", "failed", "killed", "elsewhere", "silent", "unknown"]
    since: str | None
    pid: int | None
    message: str


class SessionStatus(msgspec.Struct):
    """An agent that is connected."""

    id: str
    parent: str | None
    client: str
    host: str | None
    cwd: str | None
    personality: str | None
    plugins: list[str] | None
    connections: int
    created_at: float
    fires: int
    hooks: int
    revision: int
    digest: str


class SessionList(msgspec.Struct):
    """`sessions`."""

    sessions: list[SessionStatus]


class RecordLine(msgspec.Struct):
    """`log`: a line for each record, as in the file; its other fields depend on `kind` (docs/reference/record.md)."""

    seq: int
    at: str
    kind: str
    prev: str
    hash: str


class AcceptedState(msgspec.Struct, kw_only=True):
    """`state accept`: why the state was not believed (null: it was), and where a copy is (null: there was no file)."""

    fault: str | None
    moved_to: str | None
    revision: int
    warnings: list[str] = []


class AcknowledgeOutput(msgspec.Struct):
    """`log acknowledge`: the faults that are no longer shown."""

    acknowledged: list[str]


# A command and the shapes of its output: it prints one of them, once or on each line.
OUTPUTS: dict[str, tuple[Any, ...]] = {
    "serve": (ServeOutput,),
    "stop": (StopOutput,),
    "reload": (ReloadResult,),
    "state accept": (AcceptedState,),
    "status": (StatusOutput, Tree, NoDaemon),
    "health": (HealthOutput,),
    "sessions": (SessionList,),
    "log": (RecordLine,),
    "log verify": (VerifyReport,),
    "log acknowledge": (AcknowledgeOutput,),
}
