"""fleet export otlp: every record reaches an OTLP/HTTP receiver at least once, in order, whatever fails.

Slow: the engine is a process of its own, and so is an export that is killed.
"""

from __future__ import annotations

import gzip
import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hooklatch.fleet.engine.engine import RecordBatch
from hooklatch.fleet.logs.exporting import OtelLogRecord, encode_log_record, split_requests
from hooklatch.fleet.logs.reading import FleetLogEntry
from support.commands import Place, new_place
from support.records import lines, records
from support.redis_server import RedisServer, needs_redis
from support.shipped import FleetCommands, chain, entry_of, ship, write_record
from support.tables import table

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'hooklatch[otel]'")

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

pytestmark = [pytest.mark.slow, needs_redis]


class Receiver:
    """An OTLP/HTTP receiver on loopback: keeps what it takes, and answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.status = 200
        self.answer = ExportLogsServiceResponse()
        self.has_request = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if receiver.status == 200:
                    receiver.requests.append((self.path, ExportLogsServiceRequest.FromString(body)))
                receiver.has_request.set()
                receiver.may_answer.wait()
                self.send_response(receiver.status)
                self.send_header("content-type", "application/x-protobuf")
                data = receiver.answer.SerializeToString()
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                return  # a client that was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/logs"

    @property
    def taken(self) -> list[dict[str, Any]]:
        """Return each log record that was taken, with its resource."""
        return [
            {
                "resource": attributes_of(resource.resource.attributes),
                "scope": scope.scope.name,
                "time": record.time_unix_nano,
                "observed": record.observed_time_unix_nano,
                "severity": (record.severity_number, record.severity_text),
                "event": record.event_name,
                "body": record.body.string_value,
                **attributes_of(record.attributes),
            }
            for _, request in self.requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def uids(self) -> list[str]:
        return [one["log.record.uid"] for one in self.taken]


def attributes_of(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.may_answer.set()
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place({}) as made:
        yield made


@pytest.fixture
def fleet(
    shared_redis: RedisServer, place: Place, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> FleetCommands:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")
    return FleetCommands(shared_redis, place, f"e{abs(hash(request.node.nodeid)) % 10**8}")


@pytest.fixture
def record(fleet: FleetCommands, tmp_path: Path) -> Path:
    """Return a record that was shipped."""
    folder = write_record(tmp_path / "record", 9)
    fleet.do(lambda engine: ship(engine, "build-1", folder))
    return folder


def words(receiver: Receiver, tmp_path: Path) -> list[str]:
    return ["export", "otlp", "--endpoint", receiver.url, "--cursor", str(tmp_path / "cursor")]


def test_every_record_arrives_once_and_the_next_run_goes_on(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    first = fleet.run(*words(receiver, tmp_path))
    second = fleet.run(*words(receiver, tmp_path))
    count = len(lines(record))
    write_record(record, 2)
    fleet.do(lambda engine: ship(engine, "build-1", record, after=count))
    third = fleet.json(*words(receiver, tmp_path))

    assert (first.returncode, first.stdout) == (0, f"exported {count} records\n"), first.stderr
    assert "is new: all that the engine has is exported" in first.stderr
    assert (second.stdout, second.stderr) == ("exported 0 records\n", "")
    assert third == {"exported": len(lines(record)) - count, "refused": 0}
    assert [one["hooklatch.seq"] for one in receiver.taken] == list(range(1, len(lines(record)) + 1))
    assert {path for path, _ in receiver.requests} == {"/v1/logs"}


def test_a_decision_has_the_names_of_the_semantic_conventions(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    fleet.run(*words(receiver, tmp_path))

    own = next(one for one in records(record) if one["kind"] == "decision")
    found = next(one for one in receiver.taken if one["hooklatch.kind"] == "decision")
    assert found["resource"] == {
        "service.name": "hooklatch", "service.namespace": fleet.name, "service.instance.id": "build-1",
        "host.name": "build-1",
    }  # fmt: skip
    assert found["log.record.uid"] == f"{fleet.name}/build-1/{own['seq']}/{own['hash']}"
    assert (found["event"], found["severity"]) == ("hooklatch.decision", (13, "WARN"))
    assert found["body"] == "deny pre_tool_use: no rm"
    assert (found["session.id"], found["hooklatch.verdict"], found["hooklatch.gate"]) == ("s1", "deny", True)
    assert json.loads(found["hooklatch.outcomes"])[0]["hook"] == "guards:no_rm"
    assert "error.type" not in found
    assert found["time"] > 1.7e18
    assert found["observed"] > 1.7e18
    assert "hooklatch.excerpt" not in found


def test_a_receiver_that_is_away_costs_nothing_but_time(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    receiver.status = 503
    failed = fleet.run(*words(receiver, tmp_path))
    receiver.status = 200
    done = fleet.run(*words(receiver, tmp_path))

    assert failed.returncode == 69
    assert "did not take" in failed.stderr
    assert "nothing is lost: run the same command again" in failed.stderr
    assert done.returncode == 0
    assert len(receiver.uids) == len(set(receiver.uids)) == len(lines(record))


def test_a_kill_before_the_receiver_has_answered_loses_nothing(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    receiver.may_answer.clear()
    started = fleet.place.begin(*fleet.words(*words(receiver, tmp_path)))
    receiver.has_request.wait()
    started.signal(signal.SIGKILL)
    started.end()
    receiver.may_answer.set()

    done = fleet.run(*words(receiver, tmp_path))

    assert done.returncode == 0, done.stderr
    assert len(receiver.uids) > len(lines(record)), "the batch that was under way comes twice"
    assert len(set(receiver.uids)) == len(lines(record)), "by its identity it is told apart"


def test_following_exports_what_arrives_and_outlives_a_receiver_that_is_away(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    fleet.place.environment["OTEL_EXPORTER_OTLP_TIMEOUT"] = "0.3"
    receiver.status = 503
    started = fleet.place.begin(*fleet.words(*words(receiver, tmp_path), "--follow"))
    started.wait_for("did not take")
    receiver.status = 200
    receiver.has_request.clear()
    while len(set(receiver.uids)) < len(lines(record)):
        assert receiver.has_request.wait(60)
        receiver.has_request.clear()
    started.signal(signal.SIGINT)

    code, out, err = started.end()
    assert (code, out) == (0, f"exported {len(lines(record))} records\n"), err


def test_what_a_receiver_throws_away_is_said(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    receiver.answer = ExportLogsServiceResponse(
        partial_success=ExportLogsPartialSuccess(rejected_log_records=2, error_message="too old")
    )

    done = fleet.run(*words(receiver, tmp_path))

    assert done.returncode == 1
    assert "threw them away: too old" in done.stderr


def test_a_batch_that_cannot_be_read_is_exported_as_a_finding_and_stops_nothing(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    fleet.do(lambda engine: engine.append("build-1", 1, RecordBatch(90, 95, b"torn")))

    done = fleet.run(*words(receiver, tmp_path))

    assert done.returncode == 1
    assert "records 90 to 95 of build-1 (epoch 1) cannot be read" in done.stderr
    finding = receiver.taken[-1]
    assert (finding["event"], finding["severity"]) == ("hooklatch.finding", (17, "ERROR"))
    assert finding["hooklatch.finding"] == "unreadable"
    assert fleet.run(*words(receiver, tmp_path)).returncode == 0


def test_no_number_that_a_host_appends_stops_the_export_of_others(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    fleet.server.command("XADD", f"hooklatch:{fleet.name}:log:a:1", f"{2**64 - 1}-7", "x", "y")

    first, second = fleet.run(*words(receiver, tmp_path)), fleet.run(*words(receiver, tmp_path))

    assert (first.returncode, second.returncode) == (1, 0), first.stderr + second.stderr
    assert second.stdout == "exported 0 records\n"
    assert len(receiver.taken) == len(lines(record)) + 1


def test_a_log_that_was_emptied_and_has_other_records_now_is_exported_anew(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    other = write_record(tmp_path / "other", 2, session="other")
    assert len(lines(other)) < len(lines(record))

    fleet.run(*words(receiver, tmp_path))
    fleet.server.command("DEL", f"hooklatch:{fleet.name}:log:build-1:1")
    fleet.do(lambda engine: ship(engine, "build-1", other))
    told = fleet.run(*words(receiver, tmp_path))
    after = fleet.run(*words(receiver, tmp_path))

    assert (told.returncode, after.returncode) == (1, 0)
    assert "it was emptied or restored from an older copy, and is read anew" in told.stderr
    assert after.stdout == "exported 0 records\n"
    assert sum(one.get("session.id") == "other" for one in receiver.taken) == 2
    assert len(receiver.taken) == len(lines(record)) + len(lines(other)) + 1


@table(
    ("content", "text"),
    [
        (b"", "cannot be read"),
        (b'{"format":1,"fleet":"other","logs":{}}', "is of the fleet 'other'"),
        (b'{"format":2,"fleet":"other","logs":{}}', "format 2"),
        (b'{"format":1,"fleet":"other","logs":{"a":{"1":-5}}}', "cannot be read"),
    ],
)
def test_a_cursor_that_is_no_cursor_is_never_begun_anew(
    fleet: FleetCommands, receiver: Receiver, tmp_path: Path, content: bytes, text: str
) -> None:
    (tmp_path / "cursor").write_bytes(content)

    done = fleet.run(*words(receiver, tmp_path))

    assert done.returncode == 65
    assert text in done.stderr
    assert (tmp_path / "cursor").read_bytes() == content
    assert not receiver.requests


def test_two_exports_cannot_use_one_cursor(
    fleet: FleetCommands, receiver: Receiver, record: Path, tmp_path: Path
) -> None:
    receiver.may_answer.clear()
    started = fleet.place.begin(*fleet.words(*words(receiver, tmp_path)))
    receiver.has_request.wait()

    done = fleet.run(*words(receiver, tmp_path))
    receiver.may_answer.set()

    assert done.returncode == 65
    assert "another export uses the cursor" in done.stderr
    assert started.end()[0] == 0


def test_without_the_sdk_it_says_what_to_install(
    fleet: FleetCommands, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http._log_exporter", None)

    done = fleet.run(*words(receiver, tmp_path))

    assert done.returncode == 69
    assert "pip install 'hooklatch[otel]'" in done.stderr


# -- the mapping -------------------------------------------------------------------------------------------------------


@table(
    ("body", "severity", "error"),
    [
        ({"verdict": "allow", "cause": "policy"}, "INFO", None),
        ({"verdict": "deny", "cause": "policy"}, "WARN", None),
        ({"verdict": "deny", "cause": "crash"}, "ERROR", "crash"),
        ({"verdict": "halt", "cause": "timeout"}, "ERROR", "timeout"),
        ({"verdict": "pass", "cause": "crash"}, "INFO", "crash"),
    ],
)
def test_a_refusal_by_failure_is_an_error_and_one_by_policy_a_warning(
    body: dict[str, Any], severity: str, error: str | None
) -> None:
    found = encode_log_record("acme", entry(body))

    assert found.severity[1] == severity
    assert found.attributes.get("error.type") == error


@table(
    ("value", "expected"),
    [
        ("text", "text"),
        (True, True),
        (7, 7),
        (2**63, str(2**63)),
        (1.5, 1.5),
        (["a"], ["a"]),
        ([1], "[1]"),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_any_value_becomes_one_that_otlp_can_hold(value: object, expected: object) -> None:
    assert encode_log_record("acme", entry({"x": value})).attributes["hooklatch.x"] == expected


@table("at", ["1950-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "no time", "0001-01-01"])
def test_a_time_that_otlp_cannot_hold_is_none(at: str) -> None:
    given = entry({})
    given = msgspec.structs.replace(given, record=msgspec.structs.replace(given.record, at=at))

    assert encode_log_record("acme", given).time == 0


@table(
    ("sizes", "expected"), [([], []), ([1] * 1001, [500, 500, 1]), ([3_000_000, 1], [1, 1]), ([900_000] * 5, [2, 2, 1])]
)
def test_a_request_is_no_larger_than_receivers_take(sizes: list[int], expected: list[int]) -> None:
    telemetry = [OtelLogRecord(0, 0, (9, "INFO"), "x", "", {"x": "x" * size}) for size in sizes]

    assert [len(part) for part in split_requests(telemetry)] == expected


def test_no_field_of_a_host_stands_for_a_records_identity() -> None:
    found = encode_log_record("acme", entry({"epoch": 9, "uid": "x", "hash_": "y"}))

    assert found.attributes["hooklatch.epoch"] == 1
    assert str(found.attributes["log.record.uid"]).startswith("acme/a/1/")


def entry(body: dict[str, Any]) -> FleetLogEntry:
    return entry_of("a", chain(1, body=json.dumps(body).encode())[0], tuple(body))
