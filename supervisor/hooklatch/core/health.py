"""The definition of red and of yellow: the faults and warnings of a daemon, each with its remedy.  Pure.

`health` says in a word whether the daemon is red, `status` and `doctor` list the findings, and the metrics count them.
All of them use `health_findings`.  A warning is yellow.  Neither can be reported without a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from hooklatch.core.hooks.names import quote_name
from hooklatch.core.hooks.suspension import Suspension

if TYPE_CHECKING:
    from hooklatch.core.messages import FindingReason, HealthWord
    from hooklatch.core.status_answers import HealthFinding, HealthWarning, ReportedDiagnostic

__all__ = [
    "DO_ABOUT", "HealthInputs", "ActiveFaults", "WarningInputs",
    "is_vital_well", "health_findings", "health_word", "health_warnings",
]  # fmt: skip

BY_ITSELF = "it is started again by itself; see: hooklatch status --tree, and report what the log has"
DESCRIPTORS = "close what holds them, or raise the limit of open files; it is tried again by itself"
DISK = "fix its disk; what is still shown after that: hooklatch log verify, and hooklatch log acknowledge"
SAVED_FILE = "fix it; a saved file is loaded at once (see: hooklatch reload)"
CALLS = (
    "find what went around the guards (hooklatch log --kind fault, hooklatch doctor), then: hooklatch log acknowledge"
)
LINK = "see what it says; `hooklatch link` must run, and says on its standard error what keeps it"
RESTART = "fix what is named, and make a change again that would be lost; else start the daemon again"


class PlacedProblem(Protocol):
    """Something that is wrong in a place, such as a file; its `str` is what a person reads."""

    def describe(self) -> ReportedDiagnostic: ...


class HealthInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All facts that make a daemon ready or not, at one moment; diagnostics are reported as their `str`."""

    is_draining: bool
    parts: Sequence[str]  # parts of its own that have failed lately, or are down
    listeners: Sequence[str]  # why clients cannot be accepted
    is_zygote_alive: bool
    record: Sequence[str]
    is_record_sound: bool
    isolation: Sequence[PlacedProblem]  # sources that are isolated less than configured
    files: Sequence[PlacedProblem]  # what is wrong in files
    hooks: Sequence[PlacedProblem]  # clients' hooks that cannot be called
    faults: Sequence[str]  # of the daemon's own files and places
    quarantined: list[str]  # hooks, by name
    failing: Sequence[tuple[str, int]]  # guards whose last calls all failed, and how many
    state: Sequence[str]  # of shared state
    suspended: Sequence[Suspension]
    fleet: Sequence[str]  # parts of its policy that are not active, or too old
    calls: Sequence[str]  # that did not run as they were judged


class WarningInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that deserves a look, at one moment."""

    version: Sequence[str]  # that another one is installed than runs
    record: Sequence[str]
    switches: Sequence[str]  # of hooks, from another file, that were not adopted
    state: Sequence[str]  # settings of shared state that are not active yet
    projects: Sequence[str]
    configuration: Sequence[str]
    watch: Sequence[str]  # why changes of files are noticed late
    disabled: Sequence[str]  # hooks that cannot be loaded, and are disabled
    hooks: Sequence[str]  # a text if there are none
    commands: Sequence[str]  # shell hooks that run files which an agent can write
    files: Sequence[str]  # in a folder of hooks, that nothing reads
    notes: Sequence[str]  # about hooks that guard nothing, perhaps on purpose
    fleet: Sequence[str]  # that a password leaves this machine unencrypted
    asks: Sequence[str]  # why no person may have heard of one


# What to do about each field of `WarningInputs`; a field without a line here fails on its first warning.
DO_ABOUT = {
    "version": "to run what is installed: hooklatch restart",
    "record": "nothing about what is over; else fix what it names: it goes on by itself (see: hooklatch log verify)",
    "switches": "see what each hook is now, and switch it again by its full name: hooklatch hooks",
    "state": "when no agent works: hooklatch restart",
    "projects": "look at its hooks, then trust them; what is trusted now: hooklatch trust --list",
    "configuration": "to write a first one: hooklatch init --config FILE; or start the daemon with another --config",
    "watch": "raise fs.inotify.max_user_watches or max_user_instances (sysctl); it is tried again by itself",
    "commands": "do as it says; what an agent cannot write protects a command",
    "files": "do as it says; of a folder of hooks .toml, .py and .json are read, and policy-tests and README are not",
    "notes": "nothing, if it is meant so; whether a hook is called: hooklatch test --coverage",
    "fleet": "start the link; or use rediss://, as examples/fleet has it, and give this host another password",
    "asks": "fix what it names, or [ask.notify] in hooks.toml; what waits: hooklatch asks",
    "disabled": "nothing, if it is meant so; else fix it, and then: hooklatch hooks enable NAME",
    "hooks": "see what there is: hooklatch hooks, hooklatch check; guards to start from: hooklatch guards list",
}


def health_warnings(inputs: WarningInputs) -> list[HealthWarning]:
    """Return each thing that deserves a look, with what to do."""
    return [
        {"reason": field, "what": text, "do": DO_ABOUT[field]}
        for field in inputs.__struct_fields__
        for text in getattr(inputs, field)
    ]


def is_vital_well(*, is_zygote_alive: bool, is_record_sound: bool) -> bool:
    """Return whether no restart is called for: workers can be started, and decisions recorded."""
    return is_zygote_alive and is_record_sound


def health_findings(inputs: HealthInputs) -> list[HealthFinding]:
    """Return the findings that make a daemon red: gates are denied, or guards left out, not by policy."""
    return list(list_findings(inputs))


def list_findings(inputs: HealthInputs) -> Iterator[HealthFinding]:
    yield from (make_finding("parts", text, DESCRIPTORS) for text in inputs.listeners)
    yield from (make_finding("parts", text, BY_ITSELF) for text in inputs.parts)
    if not inputs.is_zygote_alive:
        yield make_finding("zygote", "the zygote does not run, so no worker can be started", BY_ITSELF, is_vital=True)
    yield from (make_finding("record", text, DISK, is_vital=not inputs.is_record_sound) for text in inputs.record)
    yield from (make_finding("isolation", str(source), SAVED_FILE) for source in inputs.isolation)
    for file in map(str, inputs.files):  # some have the command that mends, or accepts, what they say
        aim, _, command = file.partition("; to ")[2].partition(": hooklatch ")
        undo = "; if that is not meant, put it back" if aim.startswith("accept") else ""
        yield make_finding("files", file, f"hooklatch {command.partition(';')[0]}{undo}" if command else SAVED_FILE)
    yield from (make_finding("hooks", str(hook), SAVED_FILE) for hook in inputs.hooks)
    yield from (make_finding("faults", text, RESTART) for text in inputs.faults)
    for name in inputs.quarantined:
        text = f"{name} is quarantined: its worker died too often"
        yield make_finding("quarantined", text, f"fix it, then: hooklatch hooks enable {quote_name(name)}")
    for name, count in inputs.failing:
        text = f"{name} failed in each of its last {count} calls, so what it guards is refused"
        yield make_finding("failing", text, f"see why, and fix it: hooklatch hooks show {quote_name(name)}")
    yield from (make_finding("state", text, RESTART) for text in inputs.state)
    for suspension in inputs.suspended:
        what, which = (hook, quote_name(hook)) if (hook := suspension.hook) is not None else ("every hook", "--all")
        text = f"{what} is suspended: {suspension.reason}"
        yield make_finding("suspended", text, f"to end that: hooklatch resume {which}")
    yield from (make_finding("fleet", text, LINK) for text in inputs.fleet)
    yield from (make_finding("calls", text, CALLS) for text in inputs.calls)


def make_finding(reason: FindingReason, what: str, do: str, *, is_vital: bool = False) -> HealthFinding:
    return {"reason": reason, "what": what, "do": do, "is_vital": is_vital}


def health_word(inputs: HealthInputs) -> HealthWord:
    """Return the daemon's condition in a word: draining, red, or ready."""
    return "draining" if inputs.is_draining else "red" if health_findings(inputs) else "ready"


class ActiveFaults:
    """The faults that parts of the daemon report, each until the same part takes it back."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[str, ...]] = {}

    def report(self, part: str, *texts: str) -> None:
        """Replace the faults of a part; without a text they are taken back."""
        self._texts[part] = texts

    def __iter__(self) -> Iterator[str]:
        return (text for texts in self._texts.values() for text in texts)
