"""Send what agents do to OpenTelemetry.

It sends one log record for each event.  It is a notification, so it stops nothing.

It needs pip install 'hooklatch[otel]'.  A log record has the session, the host, the tool, its kind and the working
directory, and the reason of a refusal.  A tool's input and result are not sent.  A log record that the receiver does
not accept is a failure of this hook, which `hooklatch hooks show audit_otel:audit` counts.  The decisions themselves
are in `hooklatch log`, and `hooklatch fleet export otlp` sends those of a fleet.

This file is yours: change the endpoint.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from hooklatch import hook

try:
    import requests
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExportResult
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError as error:
    raise ImportError(f"{error}; this hook needs OpenTelemetry: pip install 'hooklatch[otel]'") from None

ENDPOINT = "http://127.0.0.1:4318/v1/logs"
SECONDS = 2.0  # for one log record, retries included
HEADERS: dict[str, str] = {}  # such as {"authorization": "Bearer …"}


@hook(
    [
        "session_start",
        "post_tool_use",
        "post_tool_use_failure",
        "permission_denied",
        "subagent_started",
        "subagent_stop",
        "stop",
        "session_end",
    ],
    timeout=5.0,
    description="sends what agents do to OpenTelemetry",
)
def audit(event: Any) -> None:
    is_refusal = event.event == "permission_denied"
    attributes = {
        "session.id": event.session_id,
        "hooklatch.host": event.host,
        "hooklatch.cwd": event.cwd,
        "hooklatch.agent": event.agent_id,
        "hooklatch.tool.name": event.payload.get("tool_name"),
        "hooklatch.tool.kind": event.payload.get("tool_kind"),
        "hooklatch.tool.id": event.payload.get("tool_use_id"),
        "hooklatch.reason": event.payload.get("reason") if is_refusal else None,
    }
    record = LogRecord(
        timestamp=time.time_ns(),
        observed_timestamp=time.time_ns(),
        severity_number=SeverityNumber.WARN if is_refusal else SeverityNumber.INFO,
        severity_text="WARN" if is_refusal else "INFO",
        body=f"{event.event} {event.payload.get('tool_name') or ''}".strip(),
        attributes={key: str(value) for key, value in attributes.items() if value is not None},
        event_name=f"hooklatch.{event.event}",
    )
    resource = Resource({"service.name": "hooklatch"})  # no detectors: they would start programs
    sent = make_exporter().export([ReadableLogRecord(record, resource, InstrumentationScope("hooklatch.audit"))])
    if sent is not LogRecordExportResult.SUCCESS:
        raise RuntimeError(f"{ENDPOINT} did not accept the log record of {event.event}")


@functools.cache
def make_exporter() -> OTLPLogExporter:
    return OTLPLogExporter(endpoint=ENDPOINT, headers=HEADERS, timeout=SECONDS, session=requests.Session())
