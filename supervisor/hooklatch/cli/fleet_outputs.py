"""The shapes that `hooklatch fleet` prints with `--json`."""

from __future__ import annotations

from typing import Any

import msgspec

from hooklatch.cli.daemon_outputs import RecordLine
from hooklatch.fleet.host.following import AppliedVersion
from hooklatch.fleet.logs.local import LocalReport
from hooklatch.fleet.logs.logs import LogFinding
from hooklatch.fleet.logs.statuses import HostStatus
from hooklatch.fleet.logs.trimming import TrimNote
from hooklatch.fleet.manifests import Manifest, RolloutTarget
from hooklatch.fleet.publishing.difference import FileChange, HookChange
from hooklatch.record.findings import ChainWitness

__all__ = ["OUTPUTS"]


class KeyPair(msgspec.Struct):
    """`fleet keygen`: the file of the private key, and the public one with its id."""

    private: str
    public: str
    id: str


class FleetPushOutput(msgspec.Struct):
    """`fleet push`: one line for each version; `is_new` is false if the version existed already."""

    version: int
    is_new: bool
    bundle: str
    size: int
    rollout: RolloutTarget
    same_as: int | None
    message: str
    commit: str | None
    files: list[str]
    left_out: list[str]
    suspendable: bool
    cases: int


class FleetDiffOutput(msgspec.Struct):
    """`fleet diff`; `suspendable` is null where it did not change."""

    before: str
    after: str
    files: list[FileChange]
    hooks: list[HookChange]
    notes: list[str]
    suspendable: bool | None


class VersionOutput(Manifest, frozen=True, kw_only=True):
    """A version: its manifest, its envelope's digest, the key that signed it, and whether that key is believed here."""

    digest: str
    key: str
    believed: bool


class FleetHistoryOutput(msgspec.Struct):
    """`fleet history`: the oldest version first."""

    versions: list[VersionOutput]
    findings: list[str]


class FleetHosts(msgspec.Struct):
    """`fleet status`: hosts that are silent first, then those with something wrong; `ok` if there is none."""

    fleet: str
    newest: int
    engine: dict[str, Any]
    ok: bool
    hosts: list[HostStatus]


class FleetRecordLine(RecordLine):
    """`fleet log`: a record, and its host."""

    host: str


class CheckedRecord(msgspec.Struct):
    """The check of one host; `ranges` are unbroken runs of records: epoch, first and last."""

    host: str
    records: int
    whole: int
    repeated: int
    ranges: list[tuple[int, int, int]]
    head: ChainWitness | None
    epoch: int
    findings: list[LogFinding]
    omitted: int
    notes: list[str]
    local: LocalReport | None
    ok: bool


class FleetVerified(msgspec.Struct):
    """`fleet verify`."""

    ok: bool
    hosts: list[CheckedRecord]
    proves: str
    does_not_prove: list[str]


class FleetExportOutput(msgspec.Struct):
    """`fleet export otlp`: the number of records that the receiver took, and of those that it threw away."""

    exported: int
    refused: int


class TrimmedHost(TrimNote, frozen=True, kw_only=True):
    """A note of a removal, and its host."""

    host: str


class FleetResetOutput(msgspec.Struct):
    """`fleet reset`: the state of the host after it."""

    head: dict[str, Any]
    wanted: AppliedVersion | None
    applied: AppliedVersion | None
    stale_s: float | None
    problem: str | None
    host: str | None
    labels: list[str]
    health: str
    revision: int


# A command and the shapes of its output: it prints one of them, once or on each line.
OUTPUTS: dict[str, tuple[Any, ...]] = {
    "fleet keygen": (KeyPair,),
    "fleet push": (FleetPushOutput,),
    "fleet rollout": (Manifest,),
    "fleet rollback": (Manifest,),
    "fleet diff": (FleetDiffOutput,),
    "fleet reset": (FleetResetOutput,),
    "fleet history": (FleetHistoryOutput,),
    "fleet status": (FleetHosts,),
    "fleet log": (FleetRecordLine,),
    "fleet verify": (FleetVerified,),
    "fleet export otlp": (FleetExportOutput,),
    "fleet trim": (list[TrimmedHost],),
}
