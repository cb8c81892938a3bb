"""The shapes of the daemon's answers about itself: health, status, record, reload, fleet.  See also `answers.py`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from hooklatch.core.messages import Cause, EngineFaultKind, FindingReason, HealthWord

__all__ = [
    "AcceptedState", "AcknowledgeAnswer", "AgentStatus", "AppliedAnswer", "AppliedBundle", "ChangeWarnings",
    "ChildStatus", "DaemonReady", "EmptyAnswer", "EngineFaultStatus", "EnvironmentStatus", "FailingHook",
    "FleetReportAnswer", "FleetStatus", "FleetVersions", "HealthAnswer", "HealthFinding", "HealthWarning",
    "HookTimings", "KeySetFacts",
    "IsolationDefault", "IsolationStatus", "LogAnswer", "LostRecords", "NewestEntry", "PayloadStatus", "PluginStatus",
    "PolicyStatus", "PoolStatus", "ProjectStatus", "ReadHead", "RecordLine", "RecordStatus", "ReloadAnswer",
    "ReportedDiagnostic", "RevisionAnswer", "SharedStateStatus", "ShippingStatus", "SignedTimestamp",
    "StartOptions", "StateOfSource", "StatusAnswer", "StopAnswer",
    "SuspensionFacts", "SuspensionStatus", "TimingsByName", "UnenforcedHook", "WorkerCounts",
    "ZygoteStatus",
]  # fmt: skip


class EmptyAnswer(TypedDict):
    """An answer that only says that the request was served."""


class RevisionAnswer(TypedDict):
    """The revision of the hooks that the asking connection sees, from which on a change is active."""

    revision: int


class ChangeWarnings(TypedDict):
    """Warnings about a change that is active, such as that it could not be stored."""

    warnings: NotRequired[list[str]]


class ReportedDiagnostic(TypedDict):
    """Something wrong in a file: its place, and a text with the remedy.  `is_red` if it makes gates deny."""

    file: str
    line: int
    message: str
    is_red: bool


class DaemonReady(TypedDict):
    """`serve`: one line, when the daemon accepts clients; `log` is the log file of a detached one.

    `wrong` has the findings that make it red, each with its remedy: gates that a finding is about deny.
    """

    agent: str
    admin: str
    pid: int
    revision: int
    wrong: list[HealthFinding]
    ready: Literal[True]
    log: NotRequired[str]


class HealthAnswer(TypedDict):
    """`health`: the daemon's health in a word, and one code for each kind of problem.

    `installed` is the version that the next start runs, null if it cannot be read.
    """

    health: HealthWord
    reasons: list[FindingReason]
    revision: int
    version: str
    installed: NotRequired[str | None]


class HealthFinding(TypedDict):
    """One thing that is wrong: the word for its kind, what it is, and what to do.

    `is_vital` says that no gate can be decided until a restart.
    """

    reason: FindingReason
    what: str
    do: str
    is_vital: bool


class HealthWarning(TypedDict):
    """One thing that deserves a look and makes nothing red by itself: the word for its kind, and what to do."""

    reason: str
    what: str
    do: str


class SuspensionFacts(TypedDict):
    """A suspension of a hook or a plugin, or (null) of all hooks."""

    hook: str | None
    since: float
    until: float
    reason: str


class SuspensionStatus(SuspensionFacts):
    """A suspension, and how long it still lasts."""

    seconds_left: float


class FailingHook(TypedDict):
    """A hook whose last calls all failed."""

    hook: str
    count: int
    cause: Cause
    origin: str | None


class NewestEntry(TypedDict):
    """The number of the newest entry of the decision record, and the first half of its sha256, in hexadecimal."""

    seq: int
    hash: str


class PayloadStatus(TypedDict):
    """The counts of payloads that were kept whole, and that could not be, and the `fault` if there is one now."""

    kept: int
    unkept: int
    fault: str | None


class ShippingStatus(TypedDict):
    """The part of the record that the fleet's engine has, that waits for it, and that was lost before."""

    shipped_seq: int | None
    waiting_records: int | None
    waiting_bytes: int | None
    lost_records: int
    lost_bytes: int
    lost: list[LostRecords]


class LostRecords(TypedDict):
    """Records that were removed before the fleet's engine had them, and the bytes that they took."""

    first_seq: int
    last_seq: int
    records: int
    bytes: int


class RecordStatus(TypedDict):
    """The decision record: its place, its newest entry, and its faults."""

    folder: str
    durability: str
    head: NewestEntry | None
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
    shipping: ShippingStatus | None


class HookTimings(TypedDict):
    """The timings of one hook, or of all fires of one event: count, failures by cause, latest milliseconds."""

    count: int
    p50_ms: float | None
    p99_ms: float | None
    min_ms: float | None
    mean_ms: float | None
    max_ms: float | None
    failures: dict[str, int]


class TimingsByName(TypedDict):
    """The durations of hooks and events, by their names."""

    hooks: dict[str, HookTimings]
    events: dict[str, HookTimings]


class UnenforcedHook(TypedDict):
    """A hook that is not enforced as others are."""

    hook: str
    mark: Literal["observe", "optional", "disabled"]


class PluginStatus(TypedDict):
    """An installed plugin and the ids of its hooks."""

    name: str
    module: str
    package: str | None
    fault: str | None
    hooks: list[str]


class ProjectStatus(TypedDict):
    """A trusted project."""

    folder: str
    state: Literal["idle", "changed", "loaded"]
    files: int
    hooks: list[str]
    sessions: int


class IsolationDefault(TypedDict):
    """The level of [isolation], and paths in it that do not exist."""

    level: str
    absent: list[str]


class IsolationStatus(TypedDict):
    """The configured level of isolation, the strongest that is fully enforced, and the parts that are missing."""

    configured: str
    in_force: str
    missing: list[str]


class StateOfSource(TypedDict):
    """The size of the shared state of a source's hooks."""

    layer: str
    within: str
    source: str
    keys: int
    bytes: int


class SharedStateStatus(TypedDict):
    """The size of all hooks' shared state, and the folder in which it is kept."""

    keys: int
    bytes: int
    kept_in: str | None
    sources: list[StateOfSource]


class WorkerCounts(TypedDict):
    """The numbers of workers since the pool was made."""

    started: int
    lost: int
    recycled: int


class PoolStatus(WorkerCounts):
    """The workers of one build of a source, and the calls that wait for one."""

    source: str
    digest: str
    build: int
    idle: int
    busy: int
    starting: int
    waiting: int
    pids: list[int]
    condemned: int
    isolation: IsolationStatus


class EnvironmentStatus(TypedDict):
    """The state of an environment. `seconds` count from the start of its build.

    `said` is the last line of the installer, or why it failed.
    """

    state: Literal["in use", "being made", "failed"]
    python: str
    version: str
    requires: tuple[str, ...]
    users: int
    seconds: float
    said: str
    zygote: int | None
    restarts: int


class ZygoteStatus(TypedDict):
    """The process that workers are forked from."""

    pid: int | None
    restarts: int


class ChildStatus(TypedDict):
    """A part of the daemon, with those below it. `running` and `failed` count the temporary ones below it."""

    name: str
    restart: str
    state: str
    is_significant: bool
    restarts: int
    fault: str | None
    running: int
    failed: int
    children: list[ChildStatus]


class AppliedBundle(TypedDict):
    """A version of the fleet's policy by its number and the sha256 of its bundle."""

    version: int
    bundle: str


class ReadHead(TypedDict):
    """The newest manifest that was read: its version (0: none) and the sha256 of its envelope."""

    version: int
    digest: str


class PolicyStatus(TypedDict):
    """The version of a policy that this host should have, and the active one."""

    wanted: AppliedBundle | None
    applied: AppliedBundle | None


class NamedPolicyStatus(PolicyStatus):
    """Those of one policy; its hooks only observe until `observes`, empty if they are enforced."""

    observes: str


class EngineFaultStatus(TypedDict):
    """The fault that this host's link has found in the engine."""

    kind: EngineFaultKind
    text: str


class FleetVersions(PolicyStatus):
    """The versions that this host has read, should have and has, and the seconds since its last contact.

    `wanted` and `applied` are the newest of all policies, `floor` the newest that was ever active.  `engine` is what is
    wrong with the engine, by the link's word.
    """

    head: ReadHead
    floor: ReadHead
    engine: EngineFaultStatus | None
    policies: dict[str, NamedPolicyStatus]
    stale_s: float | None


class SignedTimestamp(TypedDict):
    """A publisher's word that at `issued` this version was the newest; it ends at `expires`."""

    kind: Literal["timestamp"]
    fleet: str
    version: int
    digest: str
    issued: str
    expires: str


class KeySetFacts(TypedDict):
    """The fleet's key set that this host follows."""

    version: int
    expires: str


class FleetStatus(FleetVersions):
    """The state of this host in its fleet."""

    name: str | None
    host: str | None
    labels: tuple[str, ...]
    contact_at: float | None
    timestamp: SignedTimestamp | None
    key_set: KeySetFacts | None
    is_stale: bool
    max_staleness_s: float | None
    when_stale: str | None
    when_none: str | None
    denies: str | None
    links: int
    counts: dict[str, int]
    problems: list[str]


class AgentStatus(TypedDict):
    """`status`, as far as a session may see it; red (`wrong`) and yellow (`warned`) findings have their remedies."""

    version: str
    pid: int
    uptime_s: float
    health: Literal["green", "red"]
    wrong: list[HealthFinding]
    suspended: list[SuspensionStatus]
    problems: list[ReportedDiagnostic]
    faults: list[str]
    warnings: list[str]
    warned: list[HealthWarning]
    quarantined: list[str]
    failing: list[FailingHook]
    revision: int
    digest: str
    record: RecordStatus
    hooks: int
    sessions: int
    draining: bool


class StatusAnswer(AgentStatus):
    """`status`: everything about a running daemon; red (`wrong`) and yellow (`warned`) findings have their remedies."""

    connections: int
    fired: int
    skipped: dict[str, int]
    verdicts: dict[str, int]
    failures: dict[str, int]
    dropped: dict[str, int]
    asks: int
    timings: TimingsByName
    marks: list[UnenforcedHook]
    plugins: list[PluginStatus]
    personalities: dict[str, list[str]]
    projects: list[ProjectStatus]
    isolation: IsolationDefault
    state: SharedStateStatus
    fleet: FleetStatus | None
    sources: list[PoolStatus]
    files: dict[str, str]
    environments: list[EnvironmentStatus]
    zygote: ZygoteStatus
    tree: list[ChildStatus]
    path: str
    places: dict[str, str]
    start: StartOptions | None


class StartOptions(TypedDict):
    """The options of a daemon, with which `hooklatch restart` starts the next one.

    `is_managed` says that a service manager has started it, and starts it again.
    """

    config: str
    is_config_named: bool
    runtime_dir: str
    admin_dir: str | None
    state_dir: str
    log_level: str
    log_format: str
    is_detached: bool
    is_managed: bool


class StopAnswer(TypedDict):
    """`stop`: the process that drains now, and then ends."""

    pid: int


class AcknowledgeAnswer(TypedDict):
    """`log acknowledge`: the faults that are no longer shown."""

    acknowledged: list[str]


class RecordLine(TypedDict):
    """`log`: a line for each record, as in the file; its other fields depend on `kind` (docs/reference/record.md)."""

    seq: int
    at: str
    kind: str
    prev: str
    hash: str


class LogAnswer(TypedDict):
    """Records, newest last; that of a decision with its `subject`: what was judged. `more`: older ones match too."""

    records: list[dict[str, Any]]
    more: bool


class ReloadAnswer(TypedDict):
    """A reload: the changed hooks.  `accepted` are the files and plugins that had vanished, and are removed now."""

    previous: int
    revision: int
    added: list[str]
    removed: list[str]
    changed: list[str]
    diagnostics: list[ReportedDiagnostic]
    accepted: list[str]


class AcceptedState(RevisionAnswer, ChangeWarnings):
    """`state accept`: why the state was not believed (null: it was), and where a copy is (null: there was no file)."""

    fault: str | None
    moved_to: str | None


class FleetReportAnswer(FleetVersions):
    """The report of this host to its link, or to who makes it read all versions again."""

    problem: str | None
    key_set: int
    host: str | None
    labels: tuple[str, ...]
    health: HealthWord
    revision: int


class AppliedAnswer(RevisionAnswer):
    """A version of the fleet's policy is active from this revision on."""

    applied: AppliedBundle
