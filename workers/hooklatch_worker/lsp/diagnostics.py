"""The built-in hook on post_tool_use that appends a language server's diagnostics to the result of an edit.

It runs in a worker that stays warm, since the servers do: they are this worker's children and die with it.  A
diagnostic is optional, so the hook has no opinion without a server, without an answer in time, and without a readable
file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Final, Literal, cast

import msgspec
from msgspec import Meta, Struct, field

from hooklatch_worker.author.event import find_call
from hooklatch_worker.author.events import PostToolUse
from hooklatch_worker.author.verdicts import Verdict, append
from hooklatch_worker.lsp.client import SourceDocument
from hooklatch_worker.lsp.files import Location, find_project_root, locate_file, read_source
from hooklatch_worker.lsp.report import LspReport, Severity, build_report
from hooklatch_worker.lsp.servers import LanguageServers
from hooklatch_worker.lsp.table import find_language_id, find_server, list_root_markers

__all__ = ["TOOLS", "Config", "close_servers", "diagnose"]

MAX_TIMEOUT = 60  # seconds; the agent waits for as long
START, STOP = "lsp_diagnostics_start", "lsp_diagnostics_stop"

# The names that hosts have for tools with the path of a written file in their input; `apply_patch` has no path there.
TOOLS: Final = (
    *("Edit", "Write", "MultiEdit", "NotebookEdit"),
    *("edit", "write", "create", "multi_edit", "multiedit", "patch"),
    *("edit_file", "write_file", "create_file", "replace", "insert", "str_replace", "search_replace"),
    *("str_replace_editor", "str_replace_based_edit_tool", "write_to_file", "replace_in_file", "replace_file_content"),
    *("developer__write", "developer__edit", "mcp__filesystem__write_file", "mcp__filesystem__edit_file"),
)


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The hook's config table.

    `timeout` is for one edit, a server's start included.  `servers` has commands by extension, in place of those on
    PATH; an empty list turns one off.
    """

    enabled: bool = True
    timeout: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT, extra={"note": "seconds, not milliseconds"})] = 1.5
    severities: list[Severity] = field(default_factory=lambda: ["error", "warning"])
    servers: Annotated[
        dict[Annotated[str, Meta(pattern=r"^\.")], list[str]],
        Meta(extra={"is": 'a table of commands by extension, like { ".py" = ["pyright-langserver", "--stdio"] }'}),
    ] = {}


SERVERS = LanguageServers()


def diagnose(event: PostToolUse) -> Verdict[Literal["append"]] | None:
    """Return a language server's diagnostics about the file that a tool has just written."""
    config = msgspec.convert(event.config, Config)
    deadline = time.monotonic() + config.timeout
    if not config.enabled:
        return None
    SERVERS.close_idle(deadline=deadline)
    location = None if is_read(event.tool_input) else locate_file(event.tool_input, event.cwd)
    command = find_server(location.extension, config.servers) if location else None
    source = read_source(location.path) if location and command else None
    if location is None or command is None or source is None:
        return None
    text, stamp = source
    document = SourceDocument(location.path, find_language_id(location.extension), text, stamp)
    report = check_file(event, command, document, location, config, deadline)
    return append(report.text) if report else None


def close_servers() -> None:
    """End all servers."""
    SERVERS.close()


def is_read(tool_input: object) -> bool:
    """Return whether an editing tool of many commands was only asked to show a file."""
    return isinstance(tool_input, Mapping) and cast("Mapping[str, object]", tool_input).get("command") == "view"


def check_file(
    event: PostToolUse,
    command: tuple[str, ...],
    document: SourceDocument,
    location: Location,
    config: Config,
    deadline: float,
) -> LspReport | None:
    """Request a file's diagnostics between two telemetry events; the second one is sent after a failure too."""
    emit = find_call(event).emit
    emit(START, {"tool_name": event.tool_name, "path": location.shown})
    started_at = time.monotonic()
    report: LspReport | None = None
    try:
        root = find_project_root(location, list_root_markers(location.extension))
        diagnostics = SERVERS.ask((command, root), document, deadline=deadline)
        report = build_report(diagnostics or (), path=location.shown, severities=config.severities)
        return report
    finally:
        data: dict[str, object] = {
            "tool_name": event.tool_name,
            "duration_ms": round((time.monotonic() - started_at) * 1000),
            "count": report.count if report else 0,
            "had_errors": bool(report and report.had_errors),
        }
        emit(STOP, data)
