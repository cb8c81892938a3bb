"""What is wrong with a daemon, and what to do about it: the one definition of red.  Pure; asks nobody.

`health` says it in a word, `status` lists it, the metrics count it and `doctor` says what to do: all of them by `red`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from hooklatch.core.hooks.names import quoted
from hooklatch.core.hooks.suspension import Suspension

__all__ = ["REASONS", "Condition", "Faults", "Finding", "Word", "is_vital_well", "red", "word"]

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
RESTART = "fix what is named, then start the daemon again"


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong: the word for its kind, what it is, and what to do.

    `is_vital`: no gate can be decided meanwhile, so that a restart is called for.
    """

    reason: Reason
    what: str
    do: str
    is_vital: bool = False


class Condition(msgspec.Struct, frozen=True, kw_only=True):
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


def is_vital_well(*, is_zygote_alive: bool, is_record_sound: bool) -> bool:
    """Return whether no restart is called for: workers can be started, and decisions recorded."""
    return is_zygote_alive and is_record_sound


def red(condition: Condition) -> list[Finding]:
    """Return each thing that makes it red: gates are denied, or guards left out, for another reason than policy."""
    return list(findings(condition))


def findings(condition: Condition) -> Iterator[Finding]:
    yield from (Finding("parts", text, DESCRIPTORS) for text in condition.listeners)
    yield from (Finding("parts", text, BY_ITSELF) for text in condition.parts)
    if not condition.is_zygote_alive:
        text = "the zygote does not run, so no worker can be started"
        yield Finding("zygote", text, BY_ITSELF, is_vital=True)
    yield from (Finding("record", text, DISK, is_vital=not condition.is_record_sound) for text in condition.record)
    yield from (Finding("isolation", str(one), SAVED_FILE) for one in condition.isolation)
    yield from (Finding("files", str(one), SAVED_FILE) for one in condition.files)
    yield from (Finding("hooks", str(one), SAVED_FILE) for one in condition.hooks)
    yield from (Finding("faults", text, RESTART) for text in condition.faults)
    for name in condition.quarantined:
        text = f"{name} is quarantined: its worker died too often"
        yield Finding("quarantined", text, f"fix it, then: hooklatch hooks enable {quoted(name)}")
    yield from (Finding("state", text, RESTART) for text in condition.state)
    for one in condition.suspended:
        what, which = (one.hook, quoted(one.hook)) if one.hook is not None else ("every hook", "--all")
        yield Finding("suspended", f"{what} is suspended: {one.reason}", f"to end that: hooklatch resume {which}")
    yield from (Finding("fleet", text, LINK) for text in condition.fleet)


def word(condition: Condition) -> Word:
    """Say in a word how it is: it leaves, it is red, or it can do its work."""
    return "draining" if condition.is_draining else "red" if red(condition) else "ready"


class Faults:
    """What is wrong for as long as whoever found it says so."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[str, ...]] = {}

    def report(self, who: str, *texts: str) -> None:
        """Replace what somebody has said; without a text it is taken back."""
        self._texts[who] = texts

    def __iter__(self) -> Iterator[str]:
        return (text for texts in self._texts.values() for text in texts)
