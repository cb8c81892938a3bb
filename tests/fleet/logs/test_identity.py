"""Who a host is: its signatures, enrolment and retirement, on a real engine.

Slow: the engine is a process of its own.
"""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from hooklatch.fleet.batches import pack_batch
from hooklatch.fleet.engine.engine import Engine, RecordBatch
from hooklatch.fleet.enrolment import HostIdentity
from hooklatch.fleet.reports import HostReport, encode_report, read_report
from hooklatch.fleet.settings import DEFAULT_FIELDS
from hooklatch.fleet.signing import make_key
from support.records import lines
from support.redis_server import needs_redis
from support.shipped import FleetCommands, ship, tell, write_record

pytestmark = [pytest.mark.slow, needs_redis]


class SigningHost:
    """A host that ships and reports as its link does, signed."""

    def __init__(self, fleet: FleetCommands, name: str) -> None:
        self.fleet = fleet
        self.name = name
        self.key = make_key()
        self.folder = write_record(fleet.record(name))
        self.shipped = 0

    def identity(self, name: str | None = None) -> HostIdentity:
        return HostIdentity(self.key, self.fleet.name, name or self.name)

    def work(self, identity: HostIdentity | None = None, name: str | None = None, *, ships: bool = True) -> None:
        identity, name = identity or self.identity(), name or self.name

        async def run(engine: Engine) -> None:
            if ships:
                packed = pack_batch(name, 1, lines(self.folder)[self.shipped :], DEFAULT_FIELDS)
                assert packed is not None
                await engine.append(
                    name, 1, identity.sign_batch(1, RecordBatch(packed.first, packed.last, packed.data))
                )
                self.shipped = len(lines(self.folder))
            await tell(engine, name, self.folder)
            report = await engine.newest_report(name)
            assert report is not None
            await engine.report(name, identity.sign_report(read_report(report.data, name)))

        self.fleet.do(run)

    def enroll(self) -> None:
        assert self.fleet.json("enroll", self.name, "--host-key", self.key.public.text)["event"] == "enrolled"

    def findings(self, name: str | None = None, code: int = 1) -> list[str]:
        hosts = {host["host"]: host for host in self.fleet.json("verify", code=code)["hosts"]}
        return [finding["what"] for finding in hosts[name or self.name]["findings"]]

    def status(self, code: int) -> dict[str, Any]:
        hosts = {host["host"]: host for host in self.fleet.json("status", code=code)["hosts"]}
        return hosts[self.name]


@pytest.fixture
def host(empty: FleetCommands) -> SigningHost:
    return SigningHost(empty, "a")


def test_who_was_never_enrolled_works_and_is_not_proven(host: SigningHost) -> None:
    host.work()

    (verified,) = host.fleet.json("verify")["hosts"]
    assert not verified["proven"]
    assert verified["notes"][-1].startswith("nobody has proven who it is")
    assert not host.status(0)["proven"]
    assert "nobody has proven which machine" in host.fleet.run("status").stdout


def test_who_is_enrolled_and_signs_is_proven(host: SigningHost) -> None:
    host.work()
    host.enroll()

    assert host.fleet.json("verify")["hosts"][0]["proven"]
    assert host.status(0)["proven"]


def test_who_was_enrolled_and_is_gone_from_the_engine_is_not_forgotten(host: SigningHost) -> None:
    """Its password could remove its report and its log, and nothing else names it."""
    host.enroll()

    assert host.status(1)["is_silent"]
    assert "it was enrolled, and neither a report nor a log" in host.status(1)["wrong"][0]
    assert host.findings() == ["engine"]
    assert host.fleet.run("retire", host.name, "--reason", "sold").returncode == 0
    assert host.fleet.json("status")["hosts"] == []


@pytest.mark.parametrize("size", [4, 17 * 2**20])
def test_a_key_that_is_none_is_that_hosts_finding_and_stops_no_reader(host: SigningHost, size: int) -> None:
    """The host itself registers it, and an answer of 17 MiB is taken from no server."""
    host.work()
    host.enroll()
    event = host.fleet.json("enroll", "b", "--publisher", host.key.public.text)
    host.fleet.server.command("SET", f"hooklatch:{host.fleet.name}:key:b:{event['slot']}", "x" * size)
    host.fleet.do(lambda engine: engine.report("b", encode_report(HostReport(host="b"))))

    assert host.status(1)["proven"]
    assert host.findings("b") == ["identity"]
    assert host.findings() == []
    assert host.fleet.run("retire", "b", "--reason", "it lies").returncode == 0


def test_an_archive_has_who_is_a_host_and_what_was_signed(host: SigningHost, tmp_path: Path) -> None:
    host.work()
    host.enroll()
    assert host.fleet.run("archive", str(tmp_path / "kept")).returncode == 0

    words = ("fleet", "verify", "--to", f"file://{tmp_path / 'kept'}", "--fleet", host.fleet.name, "--json")
    (verified,) = json.loads(host.fleet.run_as_given(*words).stdout)["hosts"]

    assert verified["proven"]


def test_records_under_a_name_that_no_machine_has_are_found(host: SigningHost) -> None:
    host.work()
    host.enroll()
    batch = host.fleet.do(lambda engine: engine.batches("a", 1, 0))[0]
    copied = zlib.compress(zlib.decompress(batch.data).replace(b'"host":"a"', b'"host":"ghost"', 1))

    async def invent(engine: Engine) -> None:
        await engine.append("ghost", 1, RecordBatch(batch.first, batch.last, copied, signature=batch.signature))
        await tell(engine, "ghost", host.folder)

    host.fleet.do(invent)

    assert {"identity", "name"} <= set(host.findings("ghost"))
    assert host.findings() == []
    shown = host.fleet.run("verify", "--host", "ghost")
    assert shown.returncode == 1
    assert "whole     " not in shown.stdout
    wrong = {one["host"]: one["wrong"] for one in host.fleet.json("status", code=1)["hosts"]}
    assert wrong["a"] == []
    assert wrong["ghost"][-1].startswith("nobody has proven that this is a host of the fleet")


@pytest.mark.parametrize("is_signed", [True, False], ids=["by another key", "not at all"])
def test_what_the_hosts_key_has_not_signed_is_found(host: SigningHost, is_signed: bool) -> None:
    host.work()
    host.enroll()
    write_record(host.folder, 2)
    if is_signed:
        host.work(HostIdentity(make_key(), host.fleet.name, "a"))
    else:

        async def forge(engine: Engine) -> None:
            await ship(engine, "a", host.folder, after=host.shipped)
            await tell(engine, "a", host.folder)

        host.fleet.do(forge)

    assert set(host.findings()) == {"identity", "signature"}
    (wrong,) = host.status(1)["wrong"]
    assert "its report is not signed by the key" in wrong


def test_a_signed_report_that_was_changed_is_found(host: SigningHost) -> None:
    host.work()

    async def change(engine: Engine) -> None:
        report = await engine.newest_report("a")
        assert report is not None
        await engine.report("a", report.data.replace(b'"health":"ready"', b'"health":"READY"'))

    host.fleet.do(change)

    assert host.findings() == ["identity"]


def test_a_signed_report_that_is_stored_again_does_not_hide_that_its_host_is_gone(host: SigningHost) -> None:
    host.work()
    host.enroll()
    old = host.identity().sign_report(HostReport(host="a", health="ready", clock=int((time.time() - 3600) * 1000)))
    host.fleet.do(lambda engine: engine.report("a", old))

    assert any("an old one was stored again" in text for text in host.status(1)["wrong"])


def test_fields_after_the_signature_do_not_count(host: SigningHost) -> None:
    host.work()

    async def add(engine: Engine) -> None:
        report = await engine.newest_report("a")
        assert report is not None
        await engine.report("a", report.data[:-1] + b',"applied":7}')

    host.fleet.do(add)

    assert host.findings() == ["identity"]


def test_batches_from_before_the_key_are_vouched_for_by_the_next(host: SigningHost) -> None:
    host.fleet.do(lambda engine: ship(engine, "a", host.folder))
    host.enroll()
    assert "signature" in host.findings()

    host.shipped = len(lines(host.folder))
    write_record(host.folder, 2)
    host.work()

    assert host.findings(code=0) == []


def test_who_is_retired_counts_no_more_and_is_found_if_it_reports(host: SigningHost) -> None:
    host.work()
    host.enroll()
    assert host.fleet.json("retire", "a", "--reason", "sold")["event"] == "retired"

    status = host.fleet.json("status")
    assert (status["hosts"], status["retired"]) == ([], ["a"])
    assert host.fleet.json("verify")["hosts"][0]["notes"][0].endswith(": sold")

    host.work(ships=False)

    (wrong,) = [text for text in host.status(1)["wrong"] if "retired" in text]
    assert wrong.endswith("sold, and it has reported since")
    assert host.findings() == ["identity"]


def test_who_was_renamed_on_record_is_no_finding(host: SigningHost) -> None:
    host.work()
    host.enroll()
    host.fleet.json("retire", "a", "--reason", "renamed", "--renamed-to", "b")
    host.fleet.json("enroll", "b", "--host-key", host.key.public.text)
    host.shipped = 0
    host.work(host.identity("b"), "b")

    assert host.findings(code=0) == []
    assert host.fleet.run("retire", "a b", "--reason", "x").returncode == 64


def test_a_report_has_its_number_and_its_instance(host: SigningHost) -> None:
    first, second = host.identity(), host.identity()
    report = HostReport(host="a")

    made = [read_report(identity.sign_report(report), "a") for identity in (first, first, second)]

    assert [one.number for one in made] == [1, 2, 1]
    assert made[0].instance == made[1].instance != made[2].instance
