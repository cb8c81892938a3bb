"""The export of entries as OpenTelemetry logs over OTLP/HTTP, through OpenTelemetry's SDK.

It exports at least once and in order: the next batch is sent when the receiver has confirmed the one before, and only
then is the cursor file, with the last number of each log that the receiver took, replaced as a whole.  So after a kill
at any moment at most one batch is exported again.  The SDK's own batching is not used, since it drops records that it
cannot send in time.

Names are those of OpenTelemetry's semantic conventions where it has one, else `hooklatch.<field>`.  The table is in
docs/reference/fleet.md.  `log.record.uid` is the entry's identity: an entry that is exported twice has the same, and a
backend that knows the conventions keeps one of the two.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
from msgspec import Meta

from hooklatch.directories import LockedError, lock_directory, replace_file
from hooklatch.errors import explain_error, format_install_command
from hooklatch.files import open_regular_file
from hooklatch.fleet.logs.reading import FleetLogEntry, LogFinding, LogKey, ReceivedBatch
from hooklatch.fleet.manifests import FleetError
from hooklatch.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import ReadableLogRecord

__all__ = [
    "ExportError", "OtlpExporter", "open_exporter", "ExportCursor", "open_cursor", "OtelLogRecord",
    "Value", "describe_resource", "encode_log_record", "encode_finding",
]  # fmt: skip

Value = str | bool | int | float | list[str]
INFO, WARN, ERROR = (9, "INFO"), (13, "WARN"), (17, "ERROR")  # OpenTelemetry's logs data model, SeverityNumber
OF_KIND = {
    "abandoned": WARN, "fault": ERROR, "unrecorded": ERROR, "quarantined": WARN, "suspended": WARN, "disk": WARN,
    "recovered": WARN,
}  # fmt: skip
OF_CHAIN = ("seq", "prev", "at", "kind", "hash")
RENAMED = {"session": "session.id", "call_id": "gen_ai.tool.call.id"}
NOT_A_FAILURE = (None, "policy")


class OtelLogRecord(msgspec.Struct, frozen=True):
    """A log record; times are ns since the epoch, 0 if unknown."""

    time: int
    observed: int
    severity: tuple[int, str]
    name: str
    body: str
    attributes: dict[str, Value]


def describe_resource(fleet: str, host: str) -> dict[str, str]:
    """Return the resource of a host's log records."""
    return {"service.name": "hooklatch", "service.namespace": fleet, "service.instance.id": host, "host.name": host}


def encode_log_record(fleet: str, entry: FleetLogEntry) -> OtelLogRecord:
    """Return an entry as a log record."""
    record, document = entry.record, entry.record.document
    attributes: dict[str, Value] = {}
    for name, value in document.items():
        if name not in OF_CHAIN and value is not None:
            attributes[RENAMED.get(name, f"hooklatch.{name}")] = make_attribute_value(value)
    cause, tool = document.get("cause"), cast("dict[str, object]", document.get("excerpt") or {}).get("tool_name")
    if isinstance(cause, str) and cause not in NOT_A_FAILURE:
        attributes["error.type"] = cause
    if isinstance(tool, str):
        attributes["gen_ai.tool.name"] = tool
    attributes |= {  # last: no field that a host invents may replace these
        "log.record.uid": f"{fleet}/{entry.host}/{record.seq}/{record.hash}",
        "hooklatch.epoch": entry.epoch,
        "hooklatch.seq": record.seq,
        "hooklatch.hash": record.hash,
        "hooklatch.prev": record.prev,
        "hooklatch.kind": record.kind,
    }
    return OtelLogRecord(
        parse_nanoseconds(record.at), entry.at * 1_000_000, find_severity(record.kind, document),
        f"hooklatch.{record.kind}",
        format_body(record.kind, document), attributes,
    )  # fmt: skip


def encode_finding(fleet: str, finding: LogFinding, at: int) -> OtelLogRecord:
    """Return a finding as a log record; `at` is the arrival of its batch, in ms since the epoch."""
    attributes: dict[str, Value] = {
        "log.record.uid": f"{fleet}/{finding.host}/{finding.epoch}/{finding.seq}/{finding.what}",
        "hooklatch.finding": finding.what,
    }
    if finding.epoch is not None:
        attributes["hooklatch.epoch"] = finding.epoch
    if finding.seq is not None:
        attributes["hooklatch.seq"] = make_attribute_value(finding.seq)
    return OtelLogRecord(0, at * 1_000_000, ERROR, "hooklatch.finding", finding.text, attributes)


def find_severity(kind: str, document: Mapping[str, Any]) -> tuple[int, str]:
    if kind == "decision" and document.get("verdict") in ("deny", "halt"):
        return WARN if document.get("cause") in NOT_A_FAILURE else ERROR
    return OF_KIND.get(kind, INFO)


def format_body(kind: str, document: Mapping[str, Any]) -> str:
    if kind not in ("decision", "abandoned"):
        return kind
    text = f"{document.get('verdict') or kind} {document.get('event') or ''}".rstrip()
    reason = document.get("reason")
    return f"{text}: {reason}" if isinstance(reason, str) and reason else text


def make_attribute_value(value: object) -> Value:
    """Return a value if an attribute can hold it, else its JSON."""
    if isinstance(value, str | bool | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
        return cast("list[str]", value)
    return msgspec.json.encode(value).decode()


def parse_nanoseconds(at: str) -> int:
    """Return an entry's time, 0 for a text that is not a time, or one that OTLP cannot hold."""
    try:
        nanoseconds = int(datetime.fromisoformat(at).timestamp() * 1000) * 1_000_000
    except (ValueError, OverflowError, OSError):
        return 0
    return nanoseconds if 0 < nanoseconds < 2**63 else 0


AT_ONCE = 500  # records in one request
FULL = 2 * 2**20  # characters of a request's values, about: collectors take 20 MiB unless told otherwise


class ExportError(FleetError):
    """The receiver did not take a batch, and the cursor is still before it; or OpenTelemetry's SDK is not installed."""


class OtlpExporter:
    """A connection to a receiver.

    `exported` counts log records, `refused` those that it took and threw away, and `findings` those that say what is
    wrong with a log.
    """

    def __init__(self, exporter: OTLPLogExporter, fleet: str, endpoint: str | None) -> None:
        self._exporter = exporter
        self._fleet = fleet
        self._endpoint = endpoint or "the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT"
        self.exported = 0
        self.findings = 0
        self.refused = 0
        self.why_refused = ""

    def export(self, arrival: ReceivedBatch) -> None:
        """Send a batch's entries and findings; block until the receiver has them.

        Raises:
            ExportError: it does not have them; the SDK has tried for as long as OTEL_EXPORTER_OTLP_TIMEOUT says.
        """
        telemetry = [encode_log_record(self._fleet, entry) for entry in arrival.entries]
        telemetry += [encode_finding(self._fleet, finding, arrival.batch.at) for finding in arrival.findings]
        for request in split_requests(telemetry):
            self._send([make_otlp_record(self._fleet, arrival.host, log_record) for log_record in request])
        self.exported += len(telemetry)
        self.findings += len(arrival.findings)

    def _send(self, records: Sequence[ReadableLogRecord]) -> None:
        from opentelemetry.sdk._logs.export import LogRecordExportResult

        if self._exporter.export(records) is not LogRecordExportResult.SUCCESS:
            raise ExportError(
                f"{self._endpoint} did not take {len(records)} records; nothing is lost: run the same command again"
            )

    def note_answer(self, response: Any, *_: Any, **__: Any) -> None:
        """Count the log records that the receiver refused: OTLP forbids to send them again, and the SDK is silent."""
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

        if response.status_code != 200 or "protobuf" not in response.headers.get("content-type", ""):
            return
        try:
            partial = ExportLogsServiceResponse.FromString(response.content).partial_success
        except Exception as error:  # of any kind its decoder raises: the status has said that the records are taken
            self.why_refused = f"an answer that cannot be read: {error}"
            return
        self.refused += partial.rejected_log_records
        self.why_refused = partial.error_message or self.why_refused


def split_requests(telemetry: Sequence[OtelLogRecord]) -> Iterator[list[OtelLogRecord]]:
    """Yield the log records of each request: as many as receivers take, and at least one."""
    request: list[OtelLogRecord] = []
    size = 0
    for log_record in telemetry:
        length = sum(len(str(value)) for value in log_record.attributes.values())
        if request and (len(request) == AT_ONCE or size + length > FULL):
            yield request
            request, size = [], 0
        request.append(log_record)
        size += length
    if request:
        yield request


def make_otlp_record(fleet: str, host: str, otel_log_record: OtelLogRecord) -> ReadableLogRecord:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    number, text = otel_log_record.severity
    record = LogRecord(
        timestamp=otel_log_record.time or None,
        observed_timestamp=otel_log_record.observed,
        severity_number=SeverityNumber(number),
        severity_text=text,
        body=otel_log_record.body,
        attributes=otel_log_record.attributes,
        event_name=otel_log_record.name,
    )
    # No detectors: they would describe this machine, and the records are another's.
    return ReadableLogRecord(
        record, Resource(describe_resource(fleet, host)), InstrumentationScope("hooklatch.fleet", VERSION)
    )


@contextmanager
def open_exporter(endpoint: str | None, fleet: str) -> Generator[OtlpExporter]:
    """Open an exporter; without an endpoint the SDK's environment variables say where the receiver is.

    Raises:
        ExportError: the SDK is not installed.
    """
    try:
        import requests
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    except ModuleNotFoundError as error:
        install = format_install_command("hooklatch[otel]")
        raise ExportError(f"the package {error.name} is not installed: {install}") from None
    with requests.Session() as session:
        exporter = OTLPLogExporter(endpoint=endpoint, session=session)
        otlp_exporter = OtlpExporter(exporter, fleet, endpoint)
        session.hooks["response"].append(otlp_exporter.note_answer)
        try:
            yield otlp_exporter
        finally:
            exporter.shutdown()  # type: ignore[no-untyped-call]


FORMAT = 1


class CursorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file: the numbers by host and epoch."""

    format: int
    fleet: str
    logs: dict[str, dict[int, Annotated[int, Meta(ge=0)]]]


class ExportCursor:
    """An open cursor.  `is_new`: there was no file, so all that the engine has is exported."""

    def __init__(self, path: str, fleet: str) -> None:
        self.is_new = True
        self.positions: dict[LogKey, int] = {}
        self._path = path
        self._fleet = fleet
        self._read()

    def _read(self) -> None:
        try:
            with open_regular_file(self._path) as file:
                content = msgspec.json.decode(file.read(), type=CursorFile)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FleetError(
                f"the cursor {self._path} cannot be read: {explain_error(error)}; without it everything is exported"
                " again, so remove it only if you want that"
            ) from None
        if content.format != FORMAT or content.fleet != self._fleet:
            raise FleetError(
                f"the cursor {self._path} is of the fleet {content.fleet!r} (format {content.format}), not of"
                f" {self._fleet!r}; name another file"
            )
        self.is_new = False
        self.positions = {(host, epoch): seq for host, logs in content.logs.items() for epoch, seq in logs.items()}

    def advance(self, key: LogKey, seq: int) -> None:
        """Write that a log was exported through a number, 0 if it begins anew."""
        self.positions[key] = seq
        logs: dict[str, dict[int, int]] = {}
        for (host, epoch), last in sorted(self.positions.items()):
            logs.setdefault(host, {})[epoch] = last
        try:
            replace_file(self._path, msgspec.json.encode(CursorFile(FORMAT, self._fleet, logs)) + b"\n")
        except OSError as error:
            raise FleetError(f"the cursor {self._path} cannot be written: {error.strerror}") from None


@contextmanager
def open_cursor(path: str, fleet: str) -> Generator[ExportCursor]:
    """Open a cursor and lock it against other processes.

    Raises:
        FleetError: it cannot be read or written, is another fleet's, or in use.
    """
    try:
        fd = lock_directory(os.path.dirname(path), f"{os.path.basename(path)}.lock")
    except LockedError:
        raise FleetError(f"another export uses the cursor {path}; end that one, or name another file") from None
    except OSError as error:
        raise FleetError(f"the cursor {path} cannot be locked: {error.strerror}") from None
    try:
        yield ExportCursor(path, fleet)
    finally:
        os.close(fd)
