"""The reports on cases: their results as JUnit XML, and whether each hook has been shown to do its work.

The XML has only what Jenkins' schema (junit-10.xsd) has, which rejects a report for one attribute more, such as a line.

A guard that denies no case may never deny: its matcher may be wrong, or its condition never true.  So a hook on an
event that can be refused needs a case that it objects to and one that it lets pass, if only by its condition.  A hook
that `amends` needs a case that it changes, and any other hook one that calls it.  A case that a hook's matcher leaves
out belongs to another guard, and does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NotRequired, TypedDict
from xml.etree import ElementTree as ET

import msgspec

from hooklatch.cli.testing.cases import ExpectedDecision
from hooklatch.cli.testing.running import CaseResult
from hooklatch.client.protocol.decisions import Decision
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.messages import CallOutcome, FireDecision
from hooklatch.testing.results import list_result_details

__all__ = ["format_junit", "CaseObservation", "HookCoverage", "TestReport", "cover_hooks"]

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production 2 (Char)


def format_junit(results: Sequence[CaseResult], diagnostics: Iterable[str]) -> bytes:
    """Return the document: a suite for each file, and one for the diagnostics of the hooks."""
    root = ET.Element("testsuites", name="hooklatch test")
    files = dict.fromkeys(result.case.file for result in results)
    for file in files:
        add_suite(root, file, [result for result in results if result.case.file == file])
    if texts := list(diagnostics):
        suite = ET.SubElement(root, "testsuite", name="hooks", tests="1", failures="0", errors="1")
        case = ET.SubElement(suite, "testcase", classname="hooks", name="the hooks load")
        ET.SubElement(case, "error", message=strip_xml_controls(texts[0])).text = strip_xml_controls("\n".join(texts))
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def add_suite(root: ET.Element, file: str, results: Sequence[CaseResult]) -> None:
    seconds = sum(result.decision.duration_ms for result in results) / 1000
    failed = sum(bool(result.differences) for result in results)
    suite = ET.SubElement(
        root, "testsuite", name=strip_xml_controls(file), file=strip_xml_controls(file), tests=str(len(results)),
        failures=str(failed), errors="0", time=f"{seconds:.3f}",
    )  # fmt: skip
    for result in results:
        case = ET.SubElement(
            suite, "testcase", classname=strip_xml_controls(file), name=strip_xml_controls(result.case.name),
            time=f"{result.decision.duration_ms / 1000:.3f}",
        )  # fmt: skip
        lines = [("place", result.case.place), *list_result_details(result.decision)]
        text = "\n".join(f"{label}: {line}" for label, line in lines)
        if result.differences:
            failure = ET.SubElement(case, "failure", message=strip_xml_controls("; ".join(result.differences)))
            failure.text = strip_xml_controls(text)
        else:
            ET.SubElement(case, "system-out").text = strip_xml_controls(text)


def strip_xml_controls(text: str) -> str:
    """Replace characters that XML cannot hold, since a hook may print anything."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


OBJECTIONS = ("deny", "halt", "ask")
PASSES = ("pass", "allow")


class HookCoverage(msgspec.Struct):
    """The coverage of one hook: how often it was called, with which results, and the cases that are `missing`."""

    hook: str
    event: str
    called: int = 0
    objected: int = 0
    passed: int = 0
    changed: int = 0
    failed: int = 0
    missing: list[str] = []


class CaseReport(TypedDict):
    """A case of `test`: the expected decision, the real one, and their differences."""

    name: str
    file: str
    line: int
    event: str
    passed: bool
    expected: ExpectedDecision
    differences: list[str]
    failures: list[str]
    decision: Decision


class TestReport(TypedDict):
    """`test`, with the coverage if it is asked for."""

    passed: int
    failed: int
    diagnostics: list[str]
    cases: list[CaseReport]
    coverage: NotRequired[list[HookCoverage]]


class CaseObservation(NamedTuple):
    """The decision of a case, and the hooks whose matcher accepts its payload, without regard to their conditions."""

    decision: FireDecision
    matched: Sequence[Hook]


def cover_hooks(hooks: Sequence[Hook], cases: Iterable[CaseObservation], catalogue: Catalogue) -> list[HookCoverage]:
    """Return the coverage of each hook, those that lack a case first."""
    coverages = {
        (hook.event, coverage_key(hook)): HookCoverage(hook.name, hook.event)
        for hook in hooks
        if hook.event in catalogue
    }
    let_pass = set[tuple[str, str]]()  # hooks whose condition let a case pass, without a call
    for decision, matched in cases:
        called = set[tuple[str, str]]()
        for outcome in decision.outcomes:
            key = decision.event, read_full_name(outcome.layer, outcome.hook, outcome.name)
            called.add(key)
            if (coverage := coverages.get(key)) is not None:
                count_outcome(coverage, outcome)
        if decision.verdict in PASSES:  # else an earlier hook's refusal may be the reason that it was not called
            let_pass |= {(hook.event, coverage_key(hook)) for hook in matched} - called
    for hook in hooks:
        if (coverage := coverages.get(key := (hook.event, coverage_key(hook)))) is not None:
            is_gate = catalogue[hook.event].fails_closed
            coverage.missing = list_missing_cases(
                coverage, amends=hook.amends, is_gate=is_gate, has_let_pass=key in let_pass
            )
    return sorted(coverages.values(), key=lambda coverage: not coverage.missing)


def coverage_key(hook: Hook) -> str:
    return hook.name_of_several or f"{hook.layer.label}/{hook.id}"


def count_outcome(coverage: HookCoverage, outcome: CallOutcome) -> None:
    coverage.called += 1
    if outcome.cause != "policy":
        coverage.failed += 1
    elif outcome.verdict in OBJECTIONS:
        coverage.objected += 1
    else:
        coverage.passed += 1
        coverage.changed += bool(outcome.patch)


def list_missing_cases(coverage: HookCoverage, *, amends: bool, is_gate: bool, has_let_pass: bool) -> list[str]:
    if not coverage.called:
        return ["no case calls it"]
    missing: list[str] = []
    if amends:
        if not coverage.changed:
            missing.append("no case that it changes")
    elif is_gate:
        if not coverage.objected:
            missing.append("no case that it denies")
        if not (coverage.passed or has_let_pass):
            missing.append("no case that it lets pass")
    elif coverage.called == coverage.failed:
        missing.append("it fails in each of its cases")
    return missing
