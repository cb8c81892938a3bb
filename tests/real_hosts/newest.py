"""Plays each real program's newest version, and names the events in its strings that hooklatch does not know.

Usage: python tests/real_hosts/newest.py [NAME...], or `make hosts-newest`.  It downloads the newest versions beside the
pinned ones.  Exits with 1 where a version plays otherwise than the page says, or has an event that no table has.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hooklatch.hosts.find import find_host
from real_hosts.install import install
from real_hosts.programs import PROGRAMS, VERSIONS, Program, npm_command
from support.repository import ROOT

AROUND = 2000  # bytes on each side of a known name, in which a list of events stands
A_NAME = re.compile(rb"[\"'`]([A-Za-z][A-Za-z.]{3,40})[\"'`]")
IN_A_ROW = re.compile(r"(?:[A-Z][a-z]+){2,5}")
MANY = 4  # known names that make a list one of events
# Names in such lists that are no events of a program.
NO_EVENTS = {
    "claude-code": {"StatusLine", "FileSuggestion", "SubagentStatusLine"},  # what else can be set beside hooks
    "grok": {"SubagentEnd"},  # another name of SubagentStop
    "cline": {"PreCompact"},  # a script of that name is taken, and nothing starts it
    "droid": {"Enabled", "Disabled"},  # what a list of hooks on its screen may be
    "goose": {"McpClient"},  # what the compiler has put behind the list
}


def main(names: list[str]) -> int:
    """Play the newest versions of these programs, or of all; return the exit code."""
    wrong: list[str] = []
    for number, name in enumerate(names or PROGRAMS, 1):
        program = replace(PROGRAMS[name], version=newest_version(PROGRAMS[name]))
        if not install(program, number, len(names or PROGRAMS)):
            wrong.append(f"{program.title} {program.version} could not be installed")
            continue
        if unknown := list_unknown_events(program):
            wrong.append(f"{program.title} {program.version} has events that no table has: {', '.join(unknown)}")
        test = Path(__file__).with_name(f"test_{name.replace('-', '_')}.py")
        words = [str(test)] if test.exists() else [str(test.with_name("test_speakers.py")), "-k", name]
        played = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "hosts", *words], cwd=ROOT, check=False,
            env={**os.environ, VERSIONS: json.dumps({name: program.version})},
        )  # fmt: skip
        if played.returncode:
            wrong.append(f"{program.title} {program.version} plays otherwise than {PROGRAMS[name].version}: see above")
    print("\n".join(wrong) or "the newest versions are as the tables say")
    return 1 if wrong else 0


def newest_version(program: Program) -> str:
    """Return the newest version of a program's package."""
    if program.wheel:
        command = [sys.executable, "-m", "pip", "index", "versions", program.wheel]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return re.findall(r"\(([\d.]+)\)", said)[0]
    return subprocess.run(
        [*npm_command(), "view", program.npm, "version"], capture_output=True, text=True, check=True
    ).stdout.strip()


def list_unknown_events(program: Program) -> list[str]:
    """Return the names that stand in a list of events of the program's files, and that our table lacks."""
    known = set(find_host(program.name).events)
    found: set[str] = set()
    for path in program.folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix not in (".md", ".map", ".ts"):
            found.update(name for text in list_around(path.read_bytes(), known) for name in list_names(text, known))
    starts_high = {name[0].isupper() for name in known}
    return sorted(
        name
        for name in found - known - NO_EVENTS.get(program.name, set())
        if name[0].isupper() in starts_high and "Wire" not in name
    )


def list_around(data: bytes, known: set[str]) -> Iterator[bytes]:
    """Yield what stands around each place that has many known names close together."""
    gate = next(
        (name for name in ("PreToolUse", "BeforeTool", "preToolUse", "tool.execute.before") if name in known), ""
    )
    end = 0
    for match in re.finditer(re.escape(gate.encode()), data):
        if match.start() >= end:
            text = data[max(0, match.start() - AROUND) : match.start() + AROUND]
            end = match.start() + AROUND
            if sum(name.encode() in text for name in known) >= MANY:
                yield text


def list_names(text: bytes, known: set[str]) -> Iterator[str]:
    """Yield the names of the lists of events in a text: quoted, or in a row, as compilers of Rust leave them."""
    for part in re.split(rb"[\[\](){}]", text):
        quoted = [name.decode() for name in A_NAME.findall(part)]
        if sum(name in known for name in quoted) >= MANY:
            yield from quoted
    row = text.decode("latin-1")
    for run in re.findall(r"[A-Za-z]{40,}", row):
        names = sorted((name for name in known if name in run), key=len, reverse=True)
        if len(names) >= MANY:
            for name in names:
                run = run.replace(name, " ")
            yield from (rest for rest in run.split() if IN_A_ROW.fullmatch(rest))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
