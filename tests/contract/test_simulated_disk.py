"""The disk in memory: it answers as the real one does, and it crashes, fails and fills as that one may.

The first cases run against both, and random scripts are compared.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hooklatch.disks import is_plain
from hooklatch.files import create_anew, open_regular, open_regular_file
from hooklatch.record.writer import RecordError
from hooklatch_worker.sandbox.safety import UnsafeFileError, check_folders, read_safely
from hooklatch_worker.systems.disks import allocate_blocks
from simulation.disk import Disk
from simulation.inodes import RegularFile, Tree
from simulation.kernel import Kernel, UnknownCallError
from support.records import SYNC, decided, opened, records

HOME = Path("/nowhere/home")
FILE = HOME / "file"


def make_disk(seed: int = 1, **options: object) -> Disk:
    return Disk(Kernel(seed), seed, str(HOME), **options)  # type: ignore[arg-type]


@pytest.fixture(params=["memory", "real"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Path]:
    """A folder on the disk in memory, or on the real one."""
    umask = os.umask(0o022)
    if request.param == "real":
        yield tmp_path
    else:
        disk = make_disk()
        with disk.install():
            yield HOME
        assert disk.open_paths == []
        assert not os.path.exists(HOME)
    os.umask(umask)


def failed(call: Callable[..., object], *arguments: Any, **named: Any) -> str:
    """Return the name of the error that a call fails with."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is for the caller
        call(*arguments, **named)
    return errno.errorcode[caught.value.errno or 0]


def test_files_of_python_are_read_and_written(folder: Path) -> None:
    path = folder / "file"
    with open(path, "x", encoding="utf-8") as file:
        file.write("zwölf\nlines\n")
        assert (file.name, file.mode) == (str(path), "x")
    assert failed(open, path, "x") == "EEXIST"
    with open(path, "ab") as file:
        file.write(b"more")
        assert file.tell() == 17
    with open(path, "r+b") as file:
        assert (file.readline(), file.seek(0), file.write(b"Z")) == ("zwölf\n".encode(), 0, 1)
    with open(path, "rb", buffering=0) as raw:
        assert (raw.read(3), raw.read()[-4:], raw.read(1)) == (b"Zw\xc3", b"more", b"")
    with os.fdopen(open_regular(str(path), os.O_RDWR), "r+") as text:
        text.truncate(3)
    with open_regular_file(str(path)) as file:
        assert file.read() == b"Zw\xc3"
    with os.fdopen(create_anew(str(path)), "w") as text:
        text.write("new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)
    assert failed(open, folder) == "EISDIR"
    assert failed(open, folder / "nothing") == failed(open, folder / "nothing" / "x", "w") == "ENOENT"
    path.rename(folder / "moved").unlink()
    assert not path.exists()
    assert os.statvfs(folder).f_bavail > 1000


def test_locks_and_leases_hold_between_open_files(folder: Path) -> None:
    path = folder / "lock"
    path.write_bytes(b"")
    one, other = os.open(path, os.O_RDWR), os.open(path, os.O_RDONLY)
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert failed(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB) == "EAGAIN"
    assert failed(fcntl.fcntl, other, fcntl.F_SETLEASE, fcntl.F_RDLCK) == "EAGAIN"
    os.close(one)
    fcntl.fcntl(other, fcntl.F_SETSIG, 23)
    fcntl.fcntl(other, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def test_the_check_of_paths_walks_from_the_root(folder: Path) -> None:
    (folder / "hooks").mkdir(mode=0o755)
    path = folder / "hooks" / "guard.py"
    path.write_text("guard")
    assert read_safely(str(path)) == b"guard"
    check_folders(str(folder / "hooks"))
    fd = os.open(folder / "open.py", os.O_CREAT | os.O_WRONLY)
    os.fchmod(fd, 0o666)
    os.close(fd)
    with pytest.raises(UnsafeFileError, match="writable by others"):
        read_safely(str(folder / "open.py"))
    os.mkdir(folder / "open")
    fd = os.open(folder / "open", os.O_RDONLY)
    os.fchmod(fd, 0o777)
    os.close(fd)
    with pytest.raises(UnsafeFileError, match="chmod go-w"):
        check_folders(str(folder / "open"))
    with pytest.raises(FileNotFoundError):
        read_safely(str(folder / "nothing"))


# -- random scripts ------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/b", "d//e", "./a")
FLAGS = (os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND, os.O_NOFOLLOW, os.O_DIRECTORY)


def play(folder: str, seed: int) -> Iterator[object]:
    """Do things at random below a folder, and yield what came of each."""
    os.mkdir(top := f"{folder}/top")
    draw = random.Random(seed)
    fds: list[int] = []
    here = os.open(top, os.O_PATH | os.O_DIRECTORY)
    own = f"/proc/self/fd/{here}"

    def path() -> str:
        return f"{top}/{draw.choice(NAMES)}"

    def write() -> object:
        return os.write(draw.choice(fds), b"x" * draw.randrange(6000)) if fds else None

    def open_one() -> None:
        flags = draw.choice((os.O_RDONLY, os.O_WRONLY, os.O_RDWR)) | sum(draw.sample(FLAGS, draw.randrange(3)))
        if not (flags & os.O_CREAT and flags & os.O_DIRECTORY):  # the kernels differ
            mode = draw.choice((0o600, 0o666))
            if draw.random() < 0.5:
                fds.append(os.open(path(), flags, mode))
            else:
                fds.append(os.open(draw.choice((f"{own}/", "")) + draw.choice(NAMES), flags, mode, dir_fd=here))

    def describe(status: os.stat_result) -> object:
        is_file = stat.S_ISREG(status.st_mode)
        return oct(status.st_mode), status.st_uid, is_file and (status.st_nlink, status.st_size)

    def move() -> None:
        old, new = path(), path()
        if not (os.path.isdir(old) or os.path.isdir(new)):  # no daemon moves a folder
            os.rename(old, new)

    def allocate(fd: int, size: int) -> object:
        allocate_blocks(fd, 0, size)
        return os.fstat(fd).st_blocks * 512 >= size

    def close(fd: int) -> object:
        fds.remove(fd)
        os.close(fd)
        return os.write(fd, b"x")

    def one_fd() -> object:
        if not fds:
            return None
        fd, at = draw.choice(fds), draw.randrange(9000)
        act: list[Callable[[], object]] = [
            lambda: os.pwrite(fd, memoryview(b"y" * 100), at), lambda: os.ftruncate(fd, at), lambda: os.read(fd, at),
            lambda: os.pread(fd, 200, at), lambda: describe(os.fstat(fd)), lambda: os.fsync(fd),
            lambda: stat.S_ISREG(os.fstat(fd).st_mode) and os.lseek(fd, at - 3000, draw.randrange(3)),
            lambda: os.fchmod(fd, 0o640) if stat.S_ISREG(os.fstat(fd).st_mode) else None,
            lambda: allocate(fd, at + 1), lambda: close(fd), lambda: close(fd),
        ]  # fmt: skip
        return draw.choice(act)()

    doing: list[Callable[[], object]] = [
        open_one, open_one, write, write, *[one_fd] * 5, move, move,
        lambda: describe(os.stat(path())), lambda: describe(os.lstat(path())), lambda: os.mkdir(path()),
        lambda: os.mkdir(path(), 0o1777), lambda: os.rmdir(path()), lambda: os.unlink(path()),
        lambda: sorted(os.listdir(path())), lambda: os.path.realpath(path()).removeprefix(folder),
        lambda: is_plain(path()),
    ]  # fmt: skip
    for _ in range(300):
        one = draw.choice(doing)
        try:
            yield one()
        except OSError as error:
            names = [str(name) for name in (error.filename, error.filename2) if name is not None]
            yield errno.errorcode[error.errno or 0], [name.removeprefix(top).removeprefix(own) for name in names]
    for fd in (*fds, here):
        os.close(fd)
    yield sorted((at.removeprefix(top), sorted(below), sorted(files)) for at, below, files in os.walk(top))


@pytest.mark.slow
def test_random_scripts_come_to_the_same_on_both(tmp_path: Path) -> None:
    """Slow: 12,000 calls on each."""
    for seed in range(40):
        real = tmp_path / str(seed)
        real.mkdir()
        disk = make_disk()
        with disk.install():
            simulated = list(play(str(HOME), seed))
        for step, (expected, found) in enumerate(zip(play(str(real), seed), simulated, strict=True)):
            assert found == expected, (seed, step)


# -- what only this one does ---------------------------------------------------------------------------------------


def sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def put(path: Path, at: int, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.pwrite(fd, data, at)
    os.close(fd)


def contents(tree: Tree, *below: str) -> dict[str, bytes]:
    """Return the files of the folder in a tree, or of one below it."""
    folder = tree.root
    for name in (*HOME.parts[1:], *below):
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


def test_what_its_calls_do_not_simulate_is_refused_and_never_reaches_the_real_disk(tmp_path: Path) -> None:
    with Disk(Kernel(1), 1, str(tmp_path)).install():
        fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        for call in (
            lambda: os.open(tmp_path, os.O_TMPFILE | os.O_RDWR), lambda: os.scandir(os.fsencode(tmp_path)),
            lambda: os.lseek(fd, 0, os.SEEK_DATA), lambda: os.rename(tmp_path, tmp_path),
            lambda: os.mknod(tmp_path / "pipe", stat.S_IFIFO), lambda: fcntl.flock(fd, fcntl.LOCK_SH),
        ):  # fmt: skip
            with pytest.raises(UnknownCallError):
                call()
        os.close(fd)
        with pytest.raises(OSError, match="Invalid cross-device link"):
            os.rename(tmp_path / "file", "/proc/self/comm")
    assert os.listdir(tmp_path) == []


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


def test_what_a_killed_daemon_wrote_before_it_began_a_segment_the_next_one_syncs() -> None:
    disk = make_disk()
    with disk.install():
        with opened(HOME / "record", SYNC):
            sync(HOME)  # and its end syncs the record
        with opened(HOME / "record", SYNC) as record:
            decided(record, 1)
            record._journal.begin_segment()
            image = disk.image(is_power_lost=False)
        disk.become(image)
        with opened(HOME / "record", SYNC):
            found = [contents(disk.image(is_power_lost=True), "record") for _ in range(50)]
    assert all(b'"d-1"' in b"".join(files.values()) for files in found)
