"""A writer of JUnit XML, in which continuous integration shows the results of cases.

It writes only what Jenkins' schema (junit-10.xsd) has, which rejects a report for one attribute more, such as a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as ET

from hooklatch.cli.testing.running import CaseResult
from hooklatch.testing.results import list_result_details

__all__ = ["format_junit"]

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
