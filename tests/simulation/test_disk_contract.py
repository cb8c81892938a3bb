"""The disk in memory answers as the real one does: each case runs against both, and random scripts are compared."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import random
import stat
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hooklatch.disks import is_plain
from hooklatch.files import create_anew, open_regular, open_regular_file
from hooklatch_worker.sandbox.safety import UnsafeFileError, check_folders, read_safely
from hooklatch_worker.systems.disks import allocate_blocks
from simulation.disk import Disk

HOME = "/nowhere/home"


def make_disk() -> Disk:
    return Disk([HOME], lambda: 10**18, random.Random(1))


@pytest.fixture(params=["memory", "real"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Path]:
    """A folder on the disk in memory, or on the real one."""
    umask = os.umask(0o022)
    if request.param == "real":
        yield tmp_path
    else:
        disk = make_disk()
        with disk.install():
            yield Path(HOME)
        assert disk.open_paths == []
        assert not os.path.exists(HOME)
    os.umask(umask)


def failed(call: Callable[..., object], *arguments: Any, **named: Any) -> str:
    """Return the name of the error that a call fails with."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is for the caller
        call(*arguments, **named)
    return errno.errorcode[caught.value.errno or 0]


def test_data_are_where_they_were_written(folder: Path) -> None:
    fd = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    assert (os.write(fd, b"hello world"), os.lseek(fd, 0, os.SEEK_CUR)) == (11, 11)
    assert os.pwrite(fd, memoryview(b"J"), 0) == 1
    assert (os.pread(fd, 5, 0), os.read(fd, 5), os.lseek(fd, -5, os.SEEK_END), os.read(fd, 99)) == (
        b"Jello", b"", 6, b"world",
    )  # fmt: skip
    os.pwrite(fd, b"!", 20)
    assert os.pread(fd, 99, 10) == b"d" + b"\0" * 9 + b"!"
    os.ftruncate(fd, 5)
    os.ftruncate(fd, 7)
    assert (os.pread(fd, 99, 0), os.fstat(fd).st_size) == (b"Jello\0\0", 7)
    assert failed(os.lseek, fd, -1, os.SEEK_SET) == "EINVAL"
    allocate_blocks(fd, 0, 10**6)
    status = os.fstat(fd)
    assert (status.st_size, status.st_blocks * 512 >= 10**6) == (7, True)
    os.ftruncate(fd, 7)
    assert os.fstat(fd).st_blocks * 512 <= 4096
    os.fsync(fd)
    os.close(fd)
    assert failed(os.write, fd, b"x") == failed(os.close, fd) == failed(os.fstat, fd) == "EBADF"


def test_appends_go_to_the_end_whoever_else_writes(folder: Path) -> None:
    fd = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, b"one")
    (folder / "log").write_bytes(b"longer than one")
    os.write(fd, b"!")
    os.pwrite(fd, b"?", 0)
    assert failed(os.read, fd, 1) == "EBADF"
    os.close(fd)
    assert (folder / "log").read_text() == "longer than one!?"


def test_descriptors_of_folders_begin_paths(folder: Path) -> None:
    (folder / "below").mkdir()
    here = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    below = os.open("below", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, 0o640, dir_fd=below))
    os.rename("file", "moved", src_dir_fd=below, dst_dir_fd=here)
    assert os.stat("moved", dir_fd=here).st_mode == 0o100640
    assert os.stat(".", dir_fd=below).st_ino == os.stat(f"/proc/self/fd/{below}").st_ino
    assert failed(os.read, below, 1) == "EISDIR"
    os.mkdir("new", dir_fd=below)
    assert os.listdir(folder / "below") == ["new"]
    os.rmdir("new", dir_fd=below)
    os.unlink("moved", dir_fd=here)
    assert is_plain(os.path.realpath(folder / "below"))
    assert not is_plain(f"{os.path.realpath(folder)}/nothing")
    for fd in (here, below):
        os.close(fd)


def test_listings_and_walks_see_all(folder: Path) -> None:
    for name in ("b", "a/x/deep", "a/y", "c"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "file.py").write_text(name)
    found = [(os.path.relpath(at, folder), sorted(below), sorted(files)) for at, below, files in os.walk(folder)]
    assert sorted(found) == [
        (".", ["a", "b", "c"], []), ("a", ["x", "y"], []), ("a/x", ["deep"], []),
        ("a/x/deep", [], ["file.py"]), ("a/y", [], ["file.py"]), ("b", [], ["file.py"]), ("c", [], ["file.py"]),
    ]  # fmt: skip
    assert len(glob.glob(f"{folder}/**/*.py", recursive=True)) == len(list(folder.rglob("*.py"))) == 4
    with os.scandir(folder) as entries:
        first = next(entries)
        assert (first.is_dir(), first.is_file(), first.path) == (True, False, f"{folder}/{first.name}")
        assert first.stat().st_ino == os.stat(first).st_ino
    assert failed(os.listdir, folder / "b" / "file.py") == failed(os.scandir, folder / "b" / "file.py") == "ENOTDIR"
    assert failed(os.rmdir, folder / "b") == "ENOTEMPTY"
    (folder / "b" / "file.py").unlink()
    (folder / "b").rmdir()
    assert sorted(path.name for path in folder.iterdir()) == ["a", "c"]
    assert failed(os.listdir, folder / "b") == "ENOENT"


def test_files_of_python_are_read_and_written(folder: Path) -> None:
    path = folder / "file"
    with open(path, "x", encoding="utf-8") as file:
        file.write("zwölf\nlines\n")
        assert (file.name, file.mode, file.fileno() > 2) == (str(path), "x", True)
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


def test_status_has_modes_times_and_sizes(folder: Path) -> None:
    os.umask(0o027)
    fd = os.open(folder / "file", os.O_CREAT | os.O_WRONLY, 0o666)
    os.mkdir(folder / "below", 0o1777)
    modes = {name: oct(os.lstat(folder / name).st_mode) for name in sorted(os.listdir(folder))}
    assert modes == {"below": "0o41750", "file": "0o100640"}
    os.fchmod(fd, 0o600)
    assert oct(os.stat(folder / "file").st_mode) == "0o100600"
    assert (os.isatty(fd), os.get_inheritable(fd), os.get_blocking(fd)) == (False, False, True)
    os.close(fd)
    before = os.stat(folder).st_mtime_ns
    (folder / "file").write_text("x" * 10)
    status = os.stat(folder / "file")
    assert (os.stat(folder).st_mtime_ns, status.st_size, status.st_nlink, status.st_uid) == (
        before, 10, 1, os.geteuid(),
    )  # fmt: skip
    assert os.statvfs(folder).f_bavail > 1000


def test_the_check_of_paths_walks_from_the_root(folder: Path) -> None:
    (folder / "hooks").mkdir(mode=0o755)
    path = folder / "hooks" / "guard.py"
    path.write_text("guard")
    assert read_safely(str(path)) == b"guard"
    check_folders(str(folder / "hooks"))
    os.umask(0)
    os.close(os.open(folder / "open.py", os.O_CREAT | os.O_WRONLY, 0o666))
    with pytest.raises(UnsafeFileError, match="writable by others"):
        read_safely(str(folder / "open.py"))
    os.mkdir(folder / "open", 0o777)
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

    def path() -> str:
        return f"{top}/{draw.choice(NAMES)}"

    def write() -> object:
        return os.write(draw.choice(fds), b"x" * draw.randrange(6000)) if fds else None

    def open_one() -> None:
        flags = draw.choice((os.O_RDONLY, os.O_WRONLY, os.O_RDWR)) | sum(draw.sample(FLAGS, draw.randrange(3)))
        if not (flags & os.O_CREAT and flags & os.O_DIRECTORY):  # the kernels differ
            fds.append(os.open(path(), flags, 0o600))

    def look() -> object:
        status = draw.choice((os.stat, os.lstat))(path())
        is_file = stat.S_ISREG(status.st_mode)
        return oct(status.st_mode), is_file and (status.st_nlink, status.st_size)

    def move() -> None:
        old, new = path(), path()
        if not (os.path.isdir(old) or os.path.isdir(new)):  # no daemon moves a folder
            os.rename(old, new)

    def one_fd() -> object:
        if not fds:
            return None
        fd, at = draw.choice(fds), draw.randrange(9000)
        match draw.randrange(6):
            case 0:
                return os.pwrite(fd, b"y" * 100, at)
            case 1:
                return os.ftruncate(fd, at)
            case 2:
                return os.pread(fd, 200, at)
            case 3:
                return os.read(fd, at)
            case 4:
                return os.fstat(fd).st_nlink if stat.S_ISREG(os.fstat(fd).st_mode) else None
            case _:
                fds.remove(fd)
                return os.close(fd)

    doing: list[Callable[[], object]] = [
        open_one, open_one, write, write, look, one_fd, one_fd, one_fd, one_fd,
        lambda: os.mkdir(path()), lambda: os.mkdir(path()), lambda: os.rmdir(path()), lambda: os.unlink(path()),
        move, move, lambda: sorted(os.listdir(path())), lambda: os.path.realpath(path()).removeprefix(folder),
    ]  # fmt: skip
    for _ in range(300):
        one = draw.choice(doing)
        try:
            yield one()
        except OSError as error:
            yield (
                errno.errorcode[error.errno or 0],
                [str(name).removeprefix(top) for name in (error.filename, error.filename2) if name is not None],
            )
    for fd in fds:
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
            simulated = list(play(HOME, seed))
        for step, (expected, found) in enumerate(zip(play(str(real), seed), simulated, strict=True)):
            assert found == expected, (seed, step)
