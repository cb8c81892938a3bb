"""What the disk in memory has beside the calls of a real one: crashes, failures, an end of space, and no surprises."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch.record.writer import RecordError
from hooklatch_worker.systems.disks import allocate_blocks
from simulation.calls import UnknownCallError
from simulation.disk import Disk
from simulation.inodes import RegularFile, Tree
from support.records import SYNC, decided, found_beyond_faults, opened, records, running

HOME = Path("/nowhere/home")
FILE = HOME / "file"


def make_disk(seed: int = 1, **options: object) -> Disk:
    return Disk([str(HOME)], lambda: 10**18, random.Random(seed), **options)  # type: ignore[arg-type]


def sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def put(path: Path, at: int, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.pwrite(fd, data, at)
    os.close(fd)


def contents(tree: Tree) -> dict[str, bytes]:
    """Return the files of the folder in a tree."""
    folder = tree.root
    for name in HOME.parts[1:]:
        folder = folder.names[name]  # type: ignore[assignment]
    return {name: bytes(one.data) for name, one in sorted(folder.names.items()) if isinstance(one, RegularFile)}


def left(does: Callable[[], object], *, is_power_lost: bool = True, images: int = 200) -> list[dict[str, bytes]]:
    """Return what may be left after a crash that follows these calls."""
    disk = make_disk()
    with disk.install():
        does()
    return [contents(disk.image(is_power_lost=is_power_lost)) for _ in range(images)]


def test_a_kill_leaves_all_that_was_written_and_a_loss_of_power_what_was_synced() -> None:
    def does() -> None:
        put(FILE, 0, b"a" * 5000)
        sync(FILE)
        sync(HOME)
        put(FILE, 5000, b"b" * 5000)
        put(HOME / "other", 0, b"x")

    whole = {"file": b"a" * 5000 + b"b" * 5000, "other": b"x"}
    assert left(does, is_power_lost=False) == [whole] * 200
    after = left(does)
    assert all(found["file"].startswith(b"a" * 5000) and len(found["file"]) <= 10_000 for found in after)
    assert {found.get("other") for found in after} == {None, b"", b"x", b"\0"}
    tails = [found["file"][5000:] for found in after]
    assert b"" in tails
    assert b"b" * 5000 in tails
    assert any(0 < len(tail) < 5000 and tail == b"b" * len(tail) for tail in tails), "a beginning"
    assert any(b"\0" in tail and b"b" in tail for tail in tails), "sectors"


def test_what_is_overwritten_is_old_or_new_in_whole_sectors() -> None:
    def does() -> None:
        put(FILE, 0, b"o" * 2048)
        sync(FILE)
        sync(HOME)
        put(FILE, 100, b"n" * 1800)
        put(FILE, 200, b"m")

    sectors = {bytes(found["file"][at : at + 512]) for found in left(does) for at in (512, 1024)}
    assert sectors == {b"o" * 512, b"n" * 512}
    assert len({found["file"] for found in left(does)}) > 4


def test_what_was_cut_may_be_there_again() -> None:
    def does() -> None:
        put(FILE, 0, b"long and old")
        sync(FILE)
        sync(HOME)
        fd = os.open(FILE, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"new")
        os.close(fd)

    found = {found["file"].rstrip(b"\0") for found in left(does)}
    assert found == {b"long and old", b"new", b"", b"n", b"ne"}


def test_what_a_killed_daemon_still_closes_is_none_of_the_next_one() -> None:
    disk = make_disk()
    with disk.install():
        put(FILE, 0, b"x")
        image = disk.image(is_power_lost=False)
        late = os.open(FILE, os.O_RDONLY)  # its tasks run on until they end
        disk.become(image)
        fd = os.open(FILE, os.O_RDONLY)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.close(late)
        assert os.read(fd, 1) == b"x"
        os.close(fd)


def test_a_rename_is_done_or_not_done() -> None:
    def does() -> None:
        put(FILE, 0, b"old")
        sync(FILE)
        sync(HOME)
        put(HOME / "new", 0, b"new")
        sync(HOME / "new")
        os.rename(HOME / "new", FILE)

    after = left(does)
    assert {tuple(found.items()) for found in after} == {
        (("file", b"old"),), (("file", b"new"),), (("file", b"old"), ("new", b"new")),
    }  # fmt: skip

    def does_and_syncs() -> None:
        does()
        sync(HOME)

    assert left(does_and_syncs) == [{"file": b"new"}] * 200


def test_a_folder_that_is_not_synced_in_its_own_folder_is_lost_with_all_in_it() -> None:
    def does() -> None:
        (HOME / "below").mkdir()
        put(HOME / "below" / "file", 0, b"x")
        sync(HOME / "below" / "file")
        sync(HOME / "below")
        os.rename(HOME / "below" / "file", FILE)
        (HOME / "below").rmdir()

    assert {(*found,) for found in left(does)} == {(), ("file",)}


def test_what_a_failed_sync_lost_no_later_sync_brings_to_the_disk() -> None:
    disk = make_disk()
    with disk.install():
        put(FILE, 0, b"a" * 4096)
        sync(FILE)
        sync(HOME)
        put(FILE, 4096, b"b" * 4096)
        disk.fail = lambda call, path: errno.EIO if call == "fsync" else None
        with pytest.raises(OSError, match="Input/output error"):
            sync(FILE)
        disk.fail = lambda call, path: None
        put(FILE, 8192, b"c" * 4096)
        sync(FILE)
        assert FILE.read_bytes() == b"a" * 4096 + b"b" * 4096 + b"c" * 4096
    found = {contents(disk.image(is_power_lost=True))["file"][::4096] for _ in range(100)}
    assert found == {b"a\0c", b"abc"}

    with disk.install():
        put(FILE, 4100, b"B")  # the page is dirty again
        sync(FILE)
    assert contents(disk.image(is_power_lost=True))["file"][4096:4102] == b"bbbbBb"


def test_a_disk_that_fills_takes_a_part_and_then_nothing() -> None:
    disk = make_disk(size=3 * 4096)
    with disk.install():
        fd = os.open(FILE, os.O_WRONLY | os.O_CREAT, 0o600)
        allocate_blocks(fd, 0, 4096)
        other = os.open(HOME / "other", os.O_WRONLY | os.O_CREAT, 0o600)
        assert os.write(other, b"x" * 9000) == 8192
        with pytest.raises(OSError, match="No space left"):
            os.write(other, b"x")
        with pytest.raises(OSError, match="No space left"):
            allocate_blocks(other, 0, 9000)
        assert os.statvfs(HOME).f_bavail == 0
        assert os.write(fd, b"y" * 5000) == 4096  # it has its blocks
        os.unlink(HOME / "other")
        assert os.statvfs(HOME).f_bavail == 0
        os.close(other)
        assert os.statvfs(HOME).f_bavail == 2
        os.ftruncate(fd, 0)
        os.close(fd)
        assert disk.tree.used == 0


def test_each_call_is_told_first_and_may_fail() -> None:
    disk = make_disk()
    told: list[tuple[str, str]] = []
    with disk.install():
        put(FILE, 0, b"x")
        disk.before = lambda call, path: told.append((call, path))
        disk.fail = lambda call, path: errno.ENOSPC if call in ("pwrite", "rename", "scandir") else None
        with pytest.raises(OSError, match="No space"):
            put(FILE, 0, b"y")
        with pytest.raises(OSError, match="No space") as caught:
            os.rename(FILE, HOME / "other")
        with pytest.raises(OSError, match="No space"):
            os.scandir(HOME)
        disk.fail = lambda call, path: None
        assert FILE.read_bytes() == b"x"
    assert (caught.value.filename, caught.value.filename2) == (str(FILE), str(HOME / "other"))
    assert told[:3] == [("open", str(FILE)), ("pwrite", str(FILE)), ("rename", str(HOME / "other"))]
    disk.files.clear()


def test_what_is_not_simulated_is_refused_and_never_reaches_the_real_disk(tmp_path: Path) -> None:
    with Disk([str(tmp_path)], lambda: 0, random.Random(1)).install():
        fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        for call in (
            lambda: os.chdir(tmp_path), lambda: os.preadv(fd, [bytearray(1)], 0), lambda: os.listxattr(tmp_path),
            lambda: os.open(tmp_path, os.O_TMPFILE | os.O_RDWR), lambda: os.dup2(fd, 1),
            lambda: os.sendfile(1, fd, 0, 1), lambda: os.chmod("/", 0o777), lambda: os.scandir(os.fsencode(tmp_path)),
            lambda: os.lseek(fd, 0, os.SEEK_DATA), lambda: os.posix_spawn(tmp_path / "file", [], {}),
            lambda: os.symlink("file", tmp_path / "link"), lambda: os.utime(tmp_path / "file"), lambda: os.dup(fd),
            lambda: os.rename(tmp_path, tmp_path), lambda: os.mkfifo(tmp_path / "pipe"),
            lambda: os.chmod(tmp_path / "file", 0),
        ):  # fmt: skip
            with pytest.raises(UnknownCallError):
                call()
        os.close(fd)
        with pytest.raises(OSError, match="Invalid cross-device link"):
            os.rename(tmp_path / "file", "/proc/self/comm")
    assert os.listdir(tmp_path) == []


def test_two_disks_that_do_the_same_are_the_same() -> None:
    seen = []
    for _ in range(2):
        disk = make_disk(7)
        with disk.install():
            for number in range(30):
                put(HOME / f"{number}", 0, b"x" * number * 100)
            for number in range(0, 30, 3):
                os.unlink(HOME / f"{number}")
            put(HOME / "again", 0, b"")
            statuses = [tuple(os.stat(HOME / name)) for name in os.listdir(HOME)]
        with make_disk(8, tree=disk.image(is_power_lost=True)).install():
            seen.append((statuses, [(name, os.stat(HOME / name).st_size) for name in os.listdir(HOME)]))
    assert seen[0] == seen[1]
    assert [name for name, _ in seen[0][1]] != sorted(name for name, _ in seen[0][1])


@pytest.mark.slow
async def test_the_record_keeps_on_this_disk_what_it_promises() -> None:
    """Slow: 55 crashes and restarts of a record."""
    for seed in range(5):
        disk = make_disk(seed)
        with disk.install():
            async with running(HOME / "record", SYNC, reserve=8192, fdatasync=os.fdatasync) as record:
                for number in range(20):
                    await record.durable(last := decided(record, number))
                decided(record, 20)
                decided(record, 21)
                images = [disk.image(is_power_lost=True) for _ in range(10)]
                images.append(disk.image(is_power_lost=False))
            assert disk.open_paths == []
        for tree in images:
            later = make_disk(seed, tree=tree)
            with later.install():
                with opened(HOME / "record", SYNC, reserve=8192, fdatasync=os.fdatasync) as record:
                    decided(record, 99)
                decisions = [one for one in records(HOME / "record") if one["kind"] == "decision"]
                assert found_beyond_faults(HOME / "record") == []
            there = {one["decision_id"]: one["seq"] for one in decisions}
            assert there["d-19"] == last.seq
            assert list(there)[:20] == [f"d-{number}" for number in range(20)]
            assert list(there)[-1] == "d-99"
            assert later.open_paths == []


def test_a_segment_that_can_neither_be_written_nor_removed_is_not_the_last() -> None:
    disk, moment = make_disk(), [0.0]
    with disk.install(), opened(HOME / "record", SYNC, now=lambda: moment[0], fdatasync=os.fdatasync) as record:
        decided(record, 1)
        disk.fail = lambda call, path: errno.EROFS if call in ("write", "unlink") else None
        for _ in range(3):
            moment[0] += 100
            with pytest.raises(RecordError):
                decided(record, 2)
        disk.fail = lambda call, path: None
        moment[0] += 100
        decided(record, 3)
        assert [one["decision_id"] for one in records(HOME / "record") if one["kind"] == "decision"] == ["d-1", "d-3"]
    assert disk.open_paths == []
