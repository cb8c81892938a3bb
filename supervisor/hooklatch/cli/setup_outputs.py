"""The shapes that commands print with `--json` that set hooklatch up, and those beside the daemon."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hooklatch.guards.catalogue import GalleryGuard

__all__ = ["OUTPUTS"]


class InitOutput(msgspec.Struct):
    """`init`: the files that were written, and commands to go on with."""

    created: list[str]
    next: list[str]


class ShownGuard(msgspec.Struct):
    """`guards show`: a guard, its source, and its cases as JSON lines."""

    guard: GalleryGuard
    source: str
    cases: str


class AddedGuards(msgspec.Struct):
    """`guards add`: the files that were written, the guards, and commands to go on with."""

    created: list[str]
    guards: list[GalleryGuard]
    next: list[str]


class SettingsChange(msgspec.Struct):
    """`install`: the change of an agent's settings, which `dry_run` does not make; `backup` is the file before it."""

    host: str
    file: str
    changed: bool
    dry_run: bool
    backup: str | None
    diff: str
    notes: list[str]


class UninstallOutput(msgspec.Struct):
    """`uninstall`: a change of each file that had entries of hooklatch."""

    host: str
    files: list[SettingsChange]


class ImportedHookOutput(msgspec.Struct):
    """A hook of another system; `problem` is the reason if it was written as a comment."""

    place: str
    problem: str | None
    event: str | list[str]


class ImportNoteOutput(msgspec.Struct):
    """A difference between the other system and this one; `loss` if something was lost."""

    place: str
    text: str
    loss: bool


class ImportOutput(msgspec.Struct):
    """`import`: the path of the file if it was written, and its text."""

    kind: str
    written: str | None
    hooks: list[ImportedHookOutput]
    notes: list[ImportNoteOutput]
    toml: str


class DiagnosisOutput(msgspec.Struct):
    """A finding of `doctor`, with its remedy."""

    what: str
    do: str
    is_problem: bool


class CheckedHost(msgspec.Struct):
    """An agent that hooklatch is installed for: the result of the canary, and the one that it has without a daemon."""

    host: str
    file: str
    events: list[str]
    canary: str
    without_daemon: str


class DoctorReport(msgspec.Struct):
    """`doctor`."""

    problems: list[DiagnosisOutput]
    hints: list[DiagnosisOutput]
    hosts: list[CheckedHost]


class ListenOutput(msgspec.Struct):
    """`listen`: one line, when it accepts connections."""

    ready: Literal[True]
    address: str
    port: int
    token_file: str


class ListenerSettings(msgspec.Struct):
    """`listen --settings`: the hooks of Claude Code that ask it."""

    hooks: dict[str, list[Any]]


class DashboardReady(msgspec.Struct):
    """`dashboard`: one line, when it accepts connections; the URL is good for one visit."""

    ready: Literal[True]
    url: str


class LinkOutput(msgspec.Struct):
    """`link`: one line, when it begins."""

    ready: Literal[True]
    pid: int
    host: str
    fleet: str


class CompletionOutput(msgspec.Struct):
    """`completion`."""

    shell: Literal["bash", "zsh", "fish"]
    script: str


# A command and the shapes of its output: it prints one of them.
OUTPUTS: dict[str, tuple[Any, ...]] = {
    "init": (InitOutput,),
    "guards": (list[GalleryGuard],),
    "guards list": (list[GalleryGuard],),
    "guards show": (ShownGuard,),
    "guards add": (AddedGuards,),
    "install": (SettingsChange,),
    "uninstall": (UninstallOutput,),
    "import": (ImportOutput,),
    "doctor": (DoctorReport,),
    "listen": (ListenOutput, ListenerSettings),
    "dashboard": (DashboardReady,),
    "link": (LinkOutput,),
    "completion": (CompletionOutput, list[str]),
}
