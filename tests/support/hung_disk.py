"""A disk that hangs: a file system in user space (FUSE) in a mount namespace of its own, whose server is stopped.

`HungDisk` is what tests use; as a program this is the server.  It shows a directory read-only, and has nothing cached:
each look asks it (https://docs.kernel.org/filesystems/fuse, include/uapi/linux/fuse.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.commands import PROGRAM, Place, Started

__all__ = ["HungDisk", "PlaceWithDisk"]

CLONE_NEWNS, MS_RDONLY, MS_REC, MS_PRIVATE = 0x20000, 0x1, 0x4000, 0x40000
NO_ANSWER = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
IN, OUT = struct.Struct("=IIQQIIII"), struct.Struct("=IiQ")
DIRECT_IO = 1


class HungDisk:
    """A disk at `place` that shows `shown`, and answers unless it is `stopped`."""

    def __init__(self, place: Path, shown: Path) -> None:
        self.place, self.shown = place, shown
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(place), str(shown)], stdout=subprocess.PIPE, text=True,
            env={"PYTHONPATH": str(Path(__file__).parents[1])},
        )  # fmt: skip
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        if said != "mounted":
            self.end()
            pytest.skip(f"no file system in user space can be mounted here: {said}")

    @property
    def inside(self) -> list[str]:
        """Return how to run a program that sees the disk."""
        return ["nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt"]

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Have the disk answer nobody for as long as the block runs."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def take_without_answer(self) -> None:
        """Take each request from now on and answer none: who waits for that cannot be killed before the server is."""
        self.shown.with_suffix(".deaf").touch()

    def end(self) -> None:
        """End the disk, as often as anybody likes: the kernel then answers whoever waits for it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class PlaceWithDisk(Place):
    """A place whose daemon sees a disk that may hang, at `disk`; everything else is outside of its namespace."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shown = folder / "shown"
        self.shown.mkdir(mode=0o755)
        (folder / "disk").mkdir()
        self.disk = HungDisk(folder / "disk", self.shown)

    def begin(self, *words: str) -> Started:
        """Start a command that sees the disk."""
        process = subprocess.Popen(
            [*self.disk.inside, *PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=self.folder, env=self.environment,
        )  # fmt: skip
        self.begun.append(process)
        return Started(process)

    def clear(self) -> None:
        super().clear()
        self.disk.end()


# -- the server --------------------------------------------------------------------------------------------------


def mount(place: str) -> int:
    """Mount the disk where this process and those that join its namespace see it; return the kernel's end."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(fd, True)
    options = f"fd={fd},rootmode=40755,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    for done in (
        libc.unshare(CLONE_NEWNS),
        libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None),
        libc.mount(b"hung", os.fsencode(place), b"fuse.hung", ctypes.c_ulong(MS_RDONLY), options.encode()),
    ):
        if done:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def serve(fd: int, shown: str) -> None:
    """Answer the kernel until the disk is unmounted."""
    paths = {1: shown}  # by the number of their node
    while True:
        request = os.read(fd, 2**20)
        _, code, unique, node, *_ = IN.unpack_from(request)
        if code in NO_ANSWER or os.path.exists(f"{shown}.deaf"):
            continue
        try:
            error, data = 0, answer(code, paths, node, request[IN.size :])
        except OSError as failed:
            error, data = failed.errno or errno.EIO, b""
        os.write(fd, OUT.pack(OUT.size + len(data), -error, unique) + data)


def answer(code: int, paths: dict[int, str], node: int, body: bytes) -> bytes:
    path = paths.get(node, "")
    match code:
        case 26:  # INIT
            _, minor, ahead, _ = struct.unpack_from("=IIII", body)
            return struct.pack("=IIIIHHIIHHI28x", 7, min(minor, 31), ahead, 0, 4, 3, 4096, 1, 0, 0, 0)
        case 1:  # LOOKUP
            path = os.path.join(path, os.fsdecode(body.rstrip(b"\0")))
            found = attributes(path)
            number = os.lstat(path).st_ino
            paths[number] = path
            return struct.pack("=QQQQII", number, 0, 0, 0, 0, 0) + found
        case 3:  # GETATTR
            return struct.pack("=QII", 0, 0, 0) + attributes(path)
        case 14 | 27:  # OPEN, OPENDIR
            return struct.pack("=QII", 0, DIRECT_IO, 0)
        case 15:  # READ
            _, offset, size = struct.unpack_from("=QQI", body)
            return Path(path).read_bytes()[offset : offset + size]
        case 28:  # READDIR
            _, offset, _ = struct.unpack_from("=QQI", body)
            return entries(path) if offset == 0 else b""
        case 18 | 25 | 29:  # RELEASE, FLUSH, RELEASEDIR
            return b""
        case _:
            raise OSError(errno.ENOSYS, "not served")


def attributes(path: str) -> bytes:
    found = os.lstat(path)
    times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
    return struct.pack(
        "=6Q10I", found.st_ino, found.st_size, 8, *(time // 10**9 for time in times), *(time % 10**9 for time in times),
        found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0,
    )  # fmt: skip


def entries(path: str) -> bytes:
    data = b""
    for number, name in enumerate(sorted(os.listdir(path)), 1):
        encoded = os.fsencode(name)
        data += struct.pack("=QQII", os.lstat(os.path.join(path, name)).st_ino, number, len(encoded), 0) + encoded
        data += b"\0" * (-len(data) % 8)
    return data


def main(place: str, shown: str) -> None:
    try:
        fd = mount(place)
    except OSError as error:
        os.write(1, f"{error.strerror}\n".encode())
        return
    os.write(1, b"mounted\n")
    serve(fd, shown)


if __name__ == "__main__":
    main(*sys.argv[1:])
