"""fleet archive, against a real engine: what it keeps is read as the engine was, and what is missing in it is found.

Slow: the engine is a process of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.manifests import Bundle, RolloutTarget, encode_bundle
from hooklatch.fleet.publishing.versions import VersionDraft, VersionHistory, encode_envelope, sign_version
from hooklatch.fleet.signing import make_key
from support.records import lines
from support.redis_server import needs_redis
from support.shipped import FleetCommands, ship, tell, write_record

pytestmark = [pytest.mark.slow, needs_redis]


def offline(fleet: FleetCommands, folder: Path, *words: str) -> CompletedProcess[str]:
    """Run a command on the archive in place of the engine."""
    return fleet.run_as_given("fleet", *words, "--to", f"file://{folder}", "--fleet", fleet.name)


def batches(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/logs/*/*/*") if path.is_file())


@pytest.fixture
def kept(empty: FleetCommands, tmp_path: Path) -> Path:
    """Return the archive of a host that has shipped some batches and reported."""
    folder = write_record(empty.record("a"), 9)

    async def work(engine: Engine) -> None:
        await ship(engine, "a", folder)
        await tell(engine, "a", folder)

    empty.do(work)
    done = empty.run("archive", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert len(batches(tmp_path / "kept")) > 2
    return tmp_path / "kept"


def test_each_command_reads_the_archive_as_the_engine(fleet: FleetCommands, tmp_path: Path) -> None:
    archived = fleet.json("archive", str(tmp_path))

    assert all(one["added"] and one["head"] for one in archived)
    for words in (["log", "-n", "0", "--json"], ["verify", "--json"]):
        here, there = fleet.run(*words), offline(fleet, tmp_path, *words)
        assert (there.returncode, there.stdout) == (here.returncode, here.stdout), there.stderr
        assert there.stdout


def test_versions_and_bundles_are_kept(empty: FleetCommands, tmp_path: Path) -> None:
    data = encode_bundle(Bundle({"guards.py": b"1"}))
    draft = VersionDraft(bundle=hashlib.sha256(data).hexdigest(), size=len(data), rollout=RolloutTarget())
    key, facts = make_key(), {"created": "2026-11-22T10:00:00+00:00", "publisher": "ann", "message": ""}
    manifest, envelope = sign_version(VersionHistory(empty.name), draft, key, **facts)

    async def publish(engine: Engine) -> None:
        await engine.put_bundle(manifest.bundle, data)
        await engine.commit(1, encode_envelope(envelope))
        await tell(engine, "a")

    empty.do(publish)
    assert empty.run("archive", str(tmp_path)).returncode == 0
    done = offline(empty, tmp_path, "history", "--json", "--trust", key.public.text)

    assert done.returncode == 0, done.stderr
    assert [one["version"] for one in json.loads(done.stdout)["versions"]] == [1]
    assert [path.read_bytes() for path in tmp_path.glob("*/bundles/*")] == [data]


def test_what_is_new_is_added_and_what_the_engine_trimmed_stays(empty: FleetCommands, kept: Path) -> None:
    folder, before = empty.record("a"), batches(kept)
    last = len(lines(folder))
    assert empty.json("trim", "--older", "0.001", "--reason", "archived")
    write_record(folder, 2)
    empty.do(lambda engine: ship(engine, "a", folder, after=last))
    before[-1].with_name(f"{before[-1].name}.new").write_bytes(b"of a process that was killed")

    again = empty.json("archive", str(kept))
    done = offline(empty, kept, "verify", "--json", "--host", "a", "--record", str(folder))

    assert [one["added"] for one in again] == [len(batches(kept)) - 1 - len(before)]
    assert done.returncode == 0, done.stdout
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["records"] == len(lines(folder))
    assert [note.partition(":")[0] for note in host["notes"]] == ["nobody has proven who it is"]


def test_an_archive_that_began_after_a_trim_says_so(empty: FleetCommands, tmp_path: Path) -> None:
    empty.do(lambda engine: ship(engine, "a", write_record(empty.record("a"), 9)))
    empty.json("trim", "--older", "0.001", "--reason", "too old")
    empty.run("archive", str(tmp_path / "kept"))

    done = offline(empty, tmp_path / "kept", "verify", "--json")

    assert done.returncode == 0, done.stdout
    assert "was trimmed through record" in json.loads(done.stdout)["hosts"][0]["notes"][0]


def altered(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"\0")


@pytest.mark.parametrize("which", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("change", [altered, Path.unlink], ids=["altered", "removed"])
def test_what_was_changed_in_an_archive_is_found(
    empty: FleetCommands, kept: Path, which: int, change: Callable[[Path], None]
) -> None:
    assert offline(empty, kept, "verify").returncode == 0

    change(batches(kept)[which])

    assert offline(empty, kept, "verify").returncode == 1


def test_the_epochs_of_one_host_do_not_hold_up_the_archive_of_all(empty: FleetCommands, tmp_path: Path) -> None:
    script = "for epoch = 1, 80 do redis.call('XADD', KEYS[1] .. epoch, '1-0', 'd', 'x') end"
    empty.server.command("EVAL", script, 1, f"hooklatch:{empty.name}:log:a:")

    done = empty.run("archive", str(tmp_path))

    assert done.returncode == 1
    assert "the log of a has 80 epochs, of which 64 are read" in done.stderr
    assert len(list(tmp_path.glob("*/logs/a/*.json"))) == 64


def test_key_sets_and_events_that_the_engine_has_lost_stay_and_are_named(empty: FleetCommands, tmp_path: Path) -> None:
    empty.do(lambda engine: engine.put_key_set(1, b"{}"))
    assert empty.run("enroll", "a", "--host-key", make_key().public.text).returncode == 0
    assert empty.run("archive", str(tmp_path)).returncode == 0
    events = next(tmp_path.glob("*/events.json")).read_bytes()
    for name in ("keys", "events"):
        empty.server.command("DEL", f"hooklatch:{empty.name}:{name}")

    done = empty.run("archive", str(tmp_path))

    assert done.returncode == 1
    assert "the engine has 0 of the 1 key sets" in done.stderr
    assert "the engine has 0 of the 1 events of enrolment" in done.stderr
    assert next(tmp_path.glob("*/events.json")).read_bytes() == events


@pytest.mark.parametrize("name", ["*/logs/a/1.json", "*/facts.json", "*/reports/a.json", "*/events.json"])
def test_a_document_that_cannot_be_read_is_an_error(empty: FleetCommands, kept: Path, name: str) -> None:
    (path,) = kept.glob(name)
    path.write_text("{")

    done = offline(empty, kept, "verify")

    assert done.returncode == 77
    assert f"{path} of the archive cannot be read" in done.stderr


def test_an_engine_that_contradicts_the_archive_changes_nothing_in_it(empty: FleetCommands, kept: Path) -> None:
    before = {path: path.read_bytes() for path in batches(kept)}
    empty.server.command("DEL", f"hooklatch:{empty.name}:log:a:1")
    other = write_record(empty.record("b"), 3)
    empty.do(lambda engine: ship(engine, "a", other))
    newest = batches(kept)[0]
    newest.rename(newest.with_name(f"{newest.name}.torn"))  # the archive lacks a batch, and the engine has another

    done = empty.run("archive", str(kept))

    assert done.returncode in (0, 1)
    assert all(path.read_bytes() == data for path, data in before.items() if path != newest)
    assert offline(empty, kept, "verify").returncode == 1


def test_nothing_can_be_written_to_an_archive(empty: FleetCommands, kept: Path) -> None:
    done = offline(empty, kept, "trim", "--older", "0.001", "--reason", "x")

    assert done.returncode == 77
    assert "is an archive, which is only read" in done.stderr


def test_a_folder_without_an_archive_is_none(empty: FleetCommands, tmp_path: Path) -> None:
    done = offline(empty, tmp_path, "verify")

    assert done.returncode == 77
    assert "facts.json of the archive cannot be read" in done.stderr
