"""A killed writer loses nothing that it reported as recorded, and leaves a record that can be continued.

Slow: processes are killed in the middle of writing, round after round on the same record.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import msgspec
import pytest

from hooklatch.record.verify import verify_record
from support.daemons import nothing_left
from support.records import opened, records
from support.repository import TESTS
from support.warm_commands import PYTHON

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys, trio
import msgspec
from hooklatch.record.writer import RecordWriter
from support.records import SETTINGS, decision, fact

async def main():
    settings = msgspec.structs.replace(SETTINGS, segment_bytes=20_000, durability=sys.argv[3])
    record = RecordWriter(sys.argv[1], settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(record.run)
        for number in range(10**9):
            head = record.append_decision(decision(number, decision_id=f"{sys.argv[2]}-{number}"), fact())
            await record.durable(head)
            os.write(1, b"%d %s %s-%d\\n" % (head.seq, head.hash.encode(), sys.argv[2].encode(), number))
            if number % 10 == 0:
                await trio.sleep(0)

trio.run(main)
"""


@pytest.mark.parametrize("durability", ["written", "sync"])
def test_what_was_answered_is_in_the_record_after_a_kill(tmp_path: Path, durability: str) -> None:
    dice = random.Random(20260103)
    folder = tmp_path / "record"
    answered: dict[int, tuple[str, str]] = {}
    with nothing_left():
        for round_ in range(4):
            with subprocess.Popen(
                [*PYTHON, "-c", SCRIPT, folder, str(round_), durability], stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
            ) as writer:  # fmt: skip
                assert writer.stdout is not None
                said = [writer.stdout.readline() for _ in range(dice.randrange(1, 120))]
                writer.kill()
                said += writer.stdout.readlines()  # also what nobody had read by then
            for line in said:
                if line.endswith(b"\n"):
                    seq, own, decision_id = line.decode().split()
                    answered[int(seq)] = (own, decision_id)

    with opened(folder):
        pass
    found = {one["seq"]: (one["hash"][:32], one.get("decision_id")) for one in records(folder)}
    assert len(answered) > 50
    assert {seq: found.get(seq) for seq in answered} == answered
    report = verify_record(str(folder))
    assert report.ok, msgspec.json.encode(report)
    assert [one["after"] for one in records(folder) if one["kind"] == "started"] == ["nothing", *["crash"] * 4]
