"""What is wrong with a daemon, and what to do about it: the one definition of red and of yellow.  Pure; asks nobody.

`health` says in a word whether it is red, `status` and `doctor` list it with what to do, the metrics count it: all of
them by `health_findings`.  What only deserves a look is yellow.  Neither can be told without what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from hooklatch.core.hooks.names import quote_name
from hooklatch.core.hooks.suspension import Suspension

__all__ = [
    "DO_ABOUT", "REASONS", "HealthInputs", "ActiveFaults", "HealthFinding", "HealthWarning", "Word", "WarningInputs",
    "is_vital_well", "health_findings",
    "health_word", "health_warnings",
]  # fmt: skip

Word: TypeAlias = Literal["ready", "red", "draining"]
Reason: TypeAlias = Literal[
    "parts", "zygote", "record", "isolation", "files", "hooks", "faults", "quarantined", "state", "suspended", "fleet"
]
REASONS = get_args(Reason)
BY_ITSELF = "it is started again by itself; see: hooklatch status --tree, and report what the log has"
DESCRIPTORS = "close what holds them, or raise the limit of open files; it is tried again by itself"
DISK = "fix its disk; what is still shown after that: hooklatch log verify, and hooklatch log acknowledge"
SAVED_FILE = "fix it; a saved file is loaded at once (see: hooklatch reload)"
LINK = "see what it says; `hooklatch link` must run, and says on its standard error what keeps it"
RESTART = "fix what is named, and make a change again that would be lost; else start the daemon again"


class HealthFinding(msgspec.Struct, frozen=True):
    """One thing that is wrong: the word for its kind, what it is, and what to do.

    `is_vital`: no gate can be decided meanwhile, so that a restart is called for.
    """

    reason: Reason
    what: str
    do: str
    is_vital: bool = False


class HealthInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that makes a daemon ready or not, at one moment; of texts and diagnostics, what `str` says is told."""

    is_draining: bool
    parts: Sequence[str]  # parts of its own that have failed lately, or are down
    listeners: Sequence[str]  # why clients cannot be accepted
    is_zygote_alive: bool
    record: Sequence[str]
    is_record_sound: bool
    isolation: Sequence[object]  # sources that are isolated less than configured
    files: Sequence[object]  # what is wrong in files
    hooks: Sequence[object]  # clients' hooks that cannot be called
    faults: Sequence[str]  # of the daemon's own files and places
    quarantined: Sequence[str]  # hooks, by name
    state: Sequence[str]  # of what hooks remember
    suspended: Sequence[Suspension]
    fleet: Sequence[str]  # what of its policy is not in force, or is too old


class HealthWarning(msgspec.Struct, frozen=True):
    """One thing that deserves a look and makes nothing red by itself: the word for its kind, and what to do."""

    reason: str
    what: str
    do: str


class WarningInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that deserves a look, at one moment."""

    record: Sequence[str]
    switches: Sequence[str]  # of hooks, that were not taken over
    state: Sequence[str]  # settings of it that are not in force yet
    projects: Sequence[str]
    configuration: Sequence[str]
    hooks: Sequence[str]  # that there is none
    commands: Sequence[str]  # of hooks, that run what an agent can write
    files: Sequence[str]  # in a folder of hooks, that nothing reads
    notes: Sequence[str]  # on what guards nothing and may be meant so


# What to do about each field of `WarningInputs`; one without a line here cannot be told.
DO_ABOUT = {
    "record": "nothing about what is over; else fix what it names: it goes on by itself (see: hooklatch log verify)",
    "switches": "see what each hook is now, and switch it again by its full name: hooklatch hooks",
    "state": "when no agent works: hooklatch stop, then hooklatch serve --detach",
    "projects": "look at its hooks, then trust them; what is trusted now: hooklatch trust --list",
    "configuration": "to write a first one: hooklatch init --config FILE; or start the daemon with another --config",
    "commands": "do as it says; what protects a command there, and what does not: docs/guides/hooks.md, Shell hooks",
    "files": "do as it says; what is read in a folder of hooks, and what is known to be none: docs/guides/hooks.md",
    "notes": "nothing, if it is meant so; whether a hook is called: hooklatch test --coverage",
    "hooks": "see what there is: hooklatch hooks, hooklatch check; guards to start from: hooklatch guards list",
}


def health_warnings(seen: WarningInputs) -> list[HealthWarning]:
    """Return each thing that deserves a look, with what to do."""
    return [
        HealthWarning(field, text, DO_ABOUT[field]) for field in seen.__struct_fields__ for text in getattr(seen, field)
    ]


def is_vital_well(*, is_zygote_alive: bool, is_record_sound: bool) -> bool:
    """Return whether no restart is called for: workers can be started, and decisions recorded."""
    return is_zygote_alive and is_record_sound


def health_findings(condition: HealthInputs) -> list[HealthFinding]:
    """Return each thing that makes it red: gates are denied, or guards left out, for another reason than policy."""
    return list(list_findings(condition))


def list_findings(condition: HealthInputs) -> Iterator[HealthFinding]:
    yield from (HealthFinding("parts", text, DESCRIPTORS) for text in condition.listeners)
    yield from (HealthFinding("parts", text, BY_ITSELF) for text in condition.parts)
    if not condition.is_zygote_alive:
        text = "the zygote does not run, so no worker can be started"
        yield HealthFinding("zygote", text, BY_ITSELF, is_vital=True)
    yield from (
        HealthFinding("record", text, DISK, is_vital=not condition.is_record_sound) for text in condition.record
    )
    yield from (HealthFinding("isolation", str(one), SAVED_FILE) for one in condition.isolation)
    yield from (HealthFinding("files", str(file), SAVED_FILE) for file in condition.files)
    yield from (HealthFinding("hooks", str(hook), SAVED_FILE) for hook in condition.hooks)
    yield from (HealthFinding("faults", text, RESTART) for text in condition.faults)
    for name in condition.quarantined:
        text = f"{name} is quarantined: its worker died too often"
        yield HealthFinding("quarantined", text, f"fix it, then: hooklatch hooks enable {quote_name(name)}")
    yield from (HealthFinding("state", text, RESTART) for text in condition.state)
    for one in condition.suspended:
        what, which = (one.hook, quote_name(one.hook)) if one.hook is not None else ("every hook", "--all")
        yield HealthFinding("suspended", f"{what} is suspended: {one.reason}", f"to end that: hooklatch resume {which}")
    yield from (HealthFinding("fleet", text, LINK) for text in condition.fleet)


def health_word(condition: HealthInputs) -> Word:
    """Say in a word how it is: it leaves, it is red, or it can do its work."""
    return "draining" if condition.is_draining else "red" if health_findings(condition) else "ready"


class ActiveFaults:
    """What is wrong for as long as whoever found it says so."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[str, ...]] = {}

    def report(self, who: str, *texts: str) -> None:
        """Replace what somebody has said; without a text it is taken back."""
        self._texts[who] = texts

    def __iter__(self) -> Iterator[str]:
        return (text for texts in self._texts.values() for text in texts)
