"""Writes docs/reference/system-calls.md: what happens when a system call fails, call by call, from a night's lives."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

__all__ = ["FaultReport", "format_page", "write_page"]

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "reference" / "system-calls.md"
HEAD = """# When a system call fails

For operators, and for those who decide whether to trust it: each system call of the daemon, where it is made, and what
happens when it fails. Places of a call that a short life of the daemon has (start, register, fire, reload, rotation of
the record, stop) failed, each time in a life of its own with one of these errors: {lives} in all. {missed} more lives
did not come to their place, and are left out. In each

- no gate passed that an active guard refuses,
- the start, each answer and the stop had an end, and no process was left,
- `hooklatch status` was green only if guards were active and what was answered was on record,
- the record was whole, and the next start had what was acknowledged.

The numbers count lives. "Nothing": the daemon tried again or did without it, and `status` has no finding.
`make system-calls` plays them again and writes this page. Do not edit it by hand.

| call | where | errors | what happened |
|---|---|---|---|
"""
# By the beginning of an effect.  The first that fits is what the life counts as.
KINDS = (
    ("start refused", "the start ended with an error"),
    ("the daemon ended", "the daemon ended, and clients denied"),
    ("a fire unanswered", "the connection ended, and its client denied"),
    ("denied: ", "gates were denied with cause {}"),
    ("a fire refused", "a fire was answered with an error"),
    ("red: ", "red: {}"),
    ("a registration", "a change was refused, or taken with a warning"),
    ("a reload", "a change was refused, or taken with a warning"),
    ("status", "`status` was refused"),
    ("yellow: ", "yellow: {}"),
    ("it ended with", "the stop ended with an error"),
    ("it works", "the line that it is ready was lost"),
    ("a traceback", "the log had it"),
)


class FaultReport(msgspec.Struct, frozen=True):
    """One life, as it stands in the results."""

    phase: str
    call: str
    error: str
    place: str
    is_reached: bool
    effects: list[str]
    violations: list[str]
    seconds: float
    log: str = ""

    @property
    def name(self) -> str:
        return f"{self.phase} {self.call} {self.error} {self.place}"

    @property
    def module(self) -> str:
        """Return the innermost module of ours, without the folder of its package."""
        return next((part.partition(":")[0] for part in self.place.split(" < ") if "/" in part), "the interpreter")

    @property
    def kind(self) -> str:
        for beginning, words in KINDS:
            for effect in self.effects:
                if effect.startswith(beginning):
                    return words.format(effect.removeprefix(beginning))
        return "nothing"


def format_page(reports: Iterable[FaultReport]) -> str:
    by_call: dict[str, list[FaultReport]] = defaultdict(list)
    missed = 0
    for report in reports:
        if report.is_reached:
            by_call[report.call].append(report)
        else:
            missed += 1
    rows = [format_row(call, by_call[call]) for call in sorted(by_call)]
    return HEAD.format(lives=sum(map(len, by_call.values())), missed=missed) + "".join(f"{row}\n" for row in rows)


def format_row(call: str, reports: list[FaultReport]) -> str:
    where = ", ".join(sorted({f"`{report.module}`" for report in reports}))
    errors = ", ".join(sorted({report.error for report in reports}))
    kinds = Counter(report.kind for report in reports)
    return f"| `{call}` | {where} | {errors} | {'; '.join(f'{kind}: {count}' for kind, count in kinds.most_common())} |"


def write_page(reports: Iterable[FaultReport]) -> None:
    PAGE.write_text(format_page(reports))


if __name__ == "__main__":
    write_page(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[FaultReport]))
