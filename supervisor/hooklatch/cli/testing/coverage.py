"""Which hooks have been shown to do what they are there for.  Knows hooks and decisions; runs nothing.

A guard that no case has seen deny may never deny: a matcher that is wrong, a condition that is never true.  So a hook
on an event that can be refused needs a case that it objects to and one that it lets pass, be it by its condition alone;
one that `amends` a case that it changes; any other hook a case that calls it.  A case that its matcher leaves out is
another guard's, and shows nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.messages import CallOutcome, FireDecision

__all__ = ["HookCoverage", "CaseObservation", "cover_hooks"]

OBJECTIONS = ("deny", "halt", "ask")
PASSES = ("pass", "allow")


class HookCoverage(msgspec.Struct):
    """What the cases have seen of one hook: how often it was called, and what it said; `list_missing_cases` is what
    none has.
    """

    hook: str
    event: str
    called: int = 0
    objected: int = 0
    passed: int = 0
    changed: int = 0
    failed: int = 0
    missing: list[str] = []


class CaseObservation(NamedTuple):
    """The decision of a case, and the hooks whose matcher accepts what was fired, whatever their conditions say."""

    decision: FireDecision
    matched: Sequence[Hook]


def cover_hooks(hooks: Sequence[Hook], cases: Iterable[CaseObservation], catalogue: Catalogue) -> list[HookCoverage]:
    """Return what the cases show of each hook, those with something missing first."""
    of_hook = {
        (hook.event, coverage_key(hook)): HookCoverage(hook.name, hook.event)
        for hook in hooks
        if hook.event in catalogue
    }
    let_pass = set[tuple[str, str]]()  # without being called, by a condition
    for decision, matched in cases:
        called = set[tuple[str, str]]()
        for outcome in decision.outcomes:
            key = decision.event, read_full_name(outcome.layer, outcome.hook, outcome.name)
            called.add(key)
            if (covered := of_hook.get(key)) is not None:
                count_outcome(covered, outcome)
        if decision.verdict in PASSES:  # else a hook before it may be why it was not called
            let_pass |= {(hook.event, coverage_key(hook)) for hook in matched} - called
    for hook in hooks:
        if (covered := of_hook.get(key := (hook.event, coverage_key(hook)))) is not None:
            is_gate = catalogue[hook.event].fails_closed
            covered.missing = list_missing_cases(
                covered, amends=hook.amends, is_gate=is_gate, has_let_pass=key in let_pass
            )
    return sorted(of_hook.values(), key=lambda covered: not covered.missing)


def coverage_key(hook: Hook) -> str:
    return hook.name_of_several or f"{hook.layer.label}/{hook.id}"


def count_outcome(covered: HookCoverage, outcome: CallOutcome) -> None:
    covered.called += 1
    if outcome.cause != "policy":
        covered.failed += 1
    elif outcome.verdict in OBJECTIONS:
        covered.objected += 1
    else:
        covered.passed += 1
        covered.changed += bool(outcome.patch)


def list_missing_cases(covered: HookCoverage, *, amends: bool, is_gate: bool, has_let_pass: bool) -> list[str]:
    if not covered.called:
        return ["no case calls it"]
    found: list[str] = []
    if amends:
        if not covered.changed:
            found.append("no case that it changes")
    elif is_gate:
        if not covered.objected:
            found.append("no case that it denies")
        if not (covered.passed or has_let_pass):
            found.append("no case that it lets pass")
    elif covered.called == covered.failed:
        found.append("it fails in each of its cases")
    return found
