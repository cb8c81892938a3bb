"""The text of diagnostics for a model.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

__all__ = ["HEADING", "MAX_LINES", "SEVERITIES", "LspDiagnostic", "LspReport", "Severity", "build_report"]

HEADING = "[lsp diagnostics]"
MAX_LINES = 50  # the first errors are those that get fixed; hosts cut context at about 10,000 characters anyway
MAX_TEXT = 300  # characters of one message; a type error can quote a whole inferred type
Severity: TypeAlias = Literal["error", "warning", "information", "hint"]
SEVERITIES: Final = get_args(Severity)  # DiagnosticSeverity counts from 1 in this order


class Position(Struct, frozen=True):
    """A position counted from 0; `character` in the negotiated encoding's units."""

    line: int = 0
    character: int = 0


class DocumentRange(Struct, frozen=True):
    start: Position = Position()


class MarkupContent(Struct, frozen=True):
    value: str = ""


class LspDiagnostic(Struct, frozen=True):
    """A diagnostic, with only the members that are shown."""

    message: str | MarkupContent = ""
    range: DocumentRange = DocumentRange()
    severity: int | None = None

    @property
    def severity_name(self) -> str:
        # The protocol leaves the meaning of an absent severity to the client.
        number = 1 if self.severity is None else self.severity
        return SEVERITIES[number - 1] if 1 <= number <= len(SEVERITIES) else "hint"

    @property
    def text(self) -> str:
        return make_printable_line(self.message if isinstance(self.message, str) else self.message.value)


class LspReport(Struct, frozen=True):
    """The text to append, and facts for telemetry."""

    text: str
    count: int
    had_errors: bool


def build_report(diagnostics: Iterable[LspDiagnostic], *, path: str, severities: Collection[str]) -> LspReport | None:
    """Return the report about one file, or None if there are no diagnostics with these severities."""
    items = {format_place(item): item for item in diagnostics if item.severity_name in severities}
    if not items:
        return None
    shown_path = make_printable_line(path)
    lines = [format_diagnostic(items[place], shown_path) for place in sorted(items)]
    more = len(lines) - MAX_LINES
    tail = [f"… and {more} more"] if more > 0 else []
    had_errors = any(item.severity_name == "error" for item in items.values())
    return LspReport("\n".join([HEADING, *lines[:MAX_LINES], *tail]), len(lines), had_errors)


def format_place(item: LspDiagnostic) -> tuple[int, int, int, str]:
    start = item.range.start
    return start.line, start.character, SEVERITIES.index(item.severity_name), item.text


def format_diagnostic(item: LspDiagnostic, path: str) -> str:
    start = item.range.start
    return f"{item.severity_name}: {item.text} at {path}:{start.line + 1}:{start.character + 1}"


def make_printable_line(text: str) -> str:
    """Reduce a text to one printable line, so that it cannot fake others or control a terminal."""
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    line = " ".join(words)
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"
