"""The calls of macOS, with answers in the form that its manual pages and headers describe."""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hooklatch import directories
from hooklatch.core.protocol import RpcError
from hooklatch.credentials import read_credentials
from hooklatch.darwin_credentials import read_darwin_credentials
from hooklatch.service.transport import peers
from hooklatch.service.transport.peers import PeerGoneError, PeerInspector
from hooklatch_worker.systems import darwin_disks, linux_disks
from hooklatch_worker.systems.darwin import DarwinSystem, KernelEvents
from hooklatch_worker.systems.portable import ProcessEntry
from support.daemons import nothing_left
from systems.fake_darwin import Event, FakeLibrary, FakeSelect, entry, mount
from systems.stand_in import LinuxKernel, StandInSystem

READ, WRITE, PROCESS = -1, -2, -5
ADD, DELETE, CLEAR, EOF = 0x1, 0x2, 0x20, 0x8000


def test_the_list_of_processes_is_read_as_it_is_laid_out() -> None:
    library = FakeLibrary(
        entry(os.getpid(), os.getppid(), started=(10, 999_999)), entry(7, 1, group=5, state=4), entry(8, 7, state=5),
    )  # fmt: skip
    system = DarwinSystem(library, FakeSelect())

    own, stopped, dead = system.list_processes()

    assert library.asked == [[1, 14, 0]] * 2
    assert (own.pid, own.parent, own.started, own.state, own.name) == (
        os.getpid(), os.getppid(), 10_999_999, b"R", b"python3.11",
    )  # fmt: skip
    assert own.session == os.getsid(0)
    assert (stopped.pid, stopped.parent, stopped.group, stopped.state) == (7, 1, 5, b"T")
    assert (dead.parent, dead.state) == (7, b"Z")
    assert system.is_supported()
    assert system.list_children(7) == [8]
    assert system.read_name(8) == b"python3.11"


def test_a_list_that_has_grown_is_asked_for_again_and_one_that_fails_is_not_empty() -> None:
    own = entry(os.getpid(), os.getppid())
    assert len(DarwinSystem(FakeLibrary(own, shortages=3), FakeSelect()).list_processes()) == 1
    for library in (FakeLibrary(own, number=errno.EPERM), FakeLibrary(own, b"x")):
        system = DarwinSystem(library, FakeSelect())
        with pytest.raises(OSError, match=r"not permitted|no multiple"):
            system.list_processes()
        assert not system.is_supported()


def test_a_system_whose_list_is_laid_out_otherwise_is_not_supported() -> None:
    assert not DarwinSystem(FakeLibrary(entry(os.getpid(), 12345)), FakeSelect()).is_supported()


def test_the_end_of_a_process_is_asked_of_a_queue_of_its_own() -> None:
    with nothing_left():
        events = FakeSelect()
        handle = DarwinSystem(FakeLibrary(entry(7, 1)), events).watch_process(7)

        (queue,) = events.queues
        assert queue.changed == [Event(7, PROCESS, ADD, 0x80000000)]
        assert queue.is_closed  # the handle is a number of its own
        os.close(handle)


def test_a_dead_child_has_a_handle_and_a_strangers_end_has_none() -> None:
    with nothing_left():
        system = DarwinSystem(FakeLibrary(entry(7, os.getpid(), state=5), entry(8, 1, state=5)), FakeSelect(7, 8, 9))
        handle = system.watch_process(7)

        assert system.has_ended(handle)
        with pytest.raises(ProcessLookupError):
            system.signal_process(handle, 7, signal.SIGKILL)
        os.close(handle)
        for pid in (8, 9):
            with pytest.raises(ProcessLookupError):
                system.watch_process(pid)


def test_threads_are_counted() -> None:
    system = DarwinSystem(FakeLibrary(), FakeSelect())

    assert system.count_threads(os.getpid()) == 33
    with pytest.raises(ProcessLookupError):
        system.count_threads(7)


def test_of_the_sockets_that_are_watched_only_those_that_hung_up_are_taken() -> None:
    with nothing_left():
        events = FakeSelect()
        watched = KernelEvents(events)
        watched.add(4)
        watched.add_hangup(5)
        (queue,) = events.queues
        queue.reports = [Event(4, READ, 0), Event(5, WRITE, CLEAR), Event(6, WRITE, CLEAR | EOF)]

        assert watched.take() == [6]
        watched.remove(5)
        watched.remove(4)
        assert queue.changed == [
            Event(4, READ, ADD), Event(5, WRITE, ADD | CLEAR), Event(5, WRITE, DELETE), Event(4, READ, DELETE),
        ]  # fmt: skip
        watched.close()


class Peer:
    """A socket that answers getsockopt(2) as one of macOS."""

    def __init__(self, user: bytes, pid: bytes) -> None:
        self._answers = {1: user, 2: pid}

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Answer for the level SOL_LOCAL alone."""
        assert level == 0
        if option == 2 and not self._answers[2]:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._answers[option][:size]


def credentials(user: int, *, version: int = 0) -> bytes:
    return struct.pack("=IIh2x16I", version, user, 1, 20, *[0] * 15)


def test_the_user_and_the_process_of_a_peer_are_read_as_they_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    peer: Any = Peer(credentials(501), struct.pack("=i", 4711))

    assert read_darwin_credentials(peer) == (4711, 501)
    monkeypatch.delattr("_socket.SO_PEERCRED")
    assert read_credentials(peer) == (4711, 501)


@pytest.mark.parametrize("user", [b"", credentials(501, version=1), bytes(75)])
def test_a_peer_of_whom_less_is_told_is_refused(user: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    peer: Any = Peer(user, struct.pack("=i", 4711))
    with pytest.raises(OSError, match="does not tell"):
        read_darwin_credentials(peer)

    monkeypatch.delattr("_socket.SO_PEERCRED")
    with pytest.raises(RpcError, match="cannot be inspected"):
        PeerInspector(frozenset, Counter()).check(peer)


@pytest.mark.parametrize("pid", [b"", bytes(4)])
def test_a_peer_whose_process_is_not_told_is_gone_and_never_of_another_namespace(
    pid: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer: Any = Peer(credentials(os.geteuid()), pid)
    assert read_darwin_credentials(peer) == (-1, os.geteuid())

    monkeypatch.delattr("_socket.SO_PEERCRED")
    monkeypatch.setattr(peers, "system", StandInSystem(LinuxKernel()))
    with pytest.raises(PeerGoneError):
        PeerInspector(frozenset, Counter()).check(peer)


def test_a_socket_here_tells_nothing_in_the_way_of_macos() -> None:
    one, other = socket.socketpair()
    with one, other, pytest.raises(OSError, match=r"."):
        read_darwin_credentials(one)


def test_disks_that_are_not_local_are_away_and_what_lies_over_them_counts() -> None:
    mounts = [
        mount("/", is_local=True), mount("/Volumes/a b", is_local=False), mount("/auto", is_local=False),
        mount("/auto", is_local=True),
    ]  # fmt: skip

    assert {len(one) for one in mounts} == {2168}
    assert darwin_disks.read_mounts(b"".join(mounts)) == {"/Volumes/a b": struct.pack("=2i", 1, 2).hex()}


def test_without_a_list_of_mounts_no_disk_is_known_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(darwin_disks, "LIBC", object())

    assert darwin_disks.away_now() == {"/": "unknown"}
    assert darwin_disks.read_boot_id() is None


@pytest.mark.parametrize("is_there", [True, False])
def test_a_path_is_plain_where_linux_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    monkeypatch.setattr(darwin_disks, "read_real_path", linux_disks.read_real_path)  # fcntl(2) has no F_GETPATH here
    top = tmp_path.resolve()
    (top / "folder").mkdir()
    (top / "folder" / "file").touch()
    (top / "link").symlink_to("folder")
    (top / "lost").symlink_to("nothing")
    away = {str(top / "away"): "A"}
    names = ["folder", "folder/file", "link", "link/file", "lost", "nothing", "nothing/x", "folder/file/x", "away/x"]
    paths = [
        *(f"{top}/{name}" for name in [*names, "folder/", "./folder", "x/../folder"]),
        "relative",
        "/",
        "/a\0b",
        "",
    ]

    found = [darwin_disks.is_plain(path, away, is_there=is_there) for path in paths]

    assert found == [linux_disks.is_plain(path, away, is_there=is_there) for path in paths]
    assert True in found
    assert not darwin_disks.is_plain(paths[0], {"/": "unknown"})


def test_another_spelling_of_a_path_is_not_plain_and_its_real_path_is_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proj").mkdir()  # as it is named here: there, it is the folder Proj
    real = f"{tmp_path}/Proj"
    monkeypatch.setattr("fcntl.fcntl", lambda fd, command, data: real.encode().ljust(len(data), b"\0"))

    assert darwin_disks.read_real_path(f"{tmp_path}/proj") == real
    assert not darwin_disks.is_plain(f"{tmp_path}/proj", {})
    with pytest.raises(FileNotFoundError):
        darwin_disks.read_real_path(f"{tmp_path}/other")


@pytest.mark.parametrize("place", ["/volumes/share/x", "/System/Volumes/Data/Volumes/Share/x", "/Volumes/SHARE"])
def test_a_disk_that_may_not_answer_is_known_by_each_spelling(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.lstat", lambda path: os.stat("/"))
    monkeypatch.setattr(darwin_disks, "read_real_path", lambda path: path)

    assert not darwin_disks.is_plain(place, {"/Volumes/Share": "A"})
    assert darwin_disks.is_plain(place, {})


def test_when_a_process_started_does_not_depend_on_the_clock() -> None:
    earlier, later = entry(7, 1, started=(10, 0)), entry(8, 7, started=(5, 0))  # the clock was set back in between
    library = FakeLibrary(earlier, later)
    library.starts = {7: 100, 8: 200}
    system = DarwinSystem(library, FakeSelect())

    assert system.read_parent_and_start(8) == (7, 200)
    assert system.read_parent_and_start(7)[1] == 100
    library.starts = {7: 100}
    assert system.read_parent_and_start(8)[1] > 2**62  # it does not tell, so it is not older than the daemon


def test_a_peer_of_which_only_the_user_is_known_is_gone() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ProcessLookupError):
        DarwinSystem(FakeLibrary(), FakeSelect()).open_peer(ours, -1)


def test_a_process_of_another_user_does_not_keep_the_others_from_being_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        if pid == sudo:
            raise PermissionError
        signals.append((pid, number))

    own, first, sudo, last = os.getpid(), 900_001, 900_002, 900_003
    entries = [ProcessEntry(pid, own, pid, 0, 0, b"T", b"x") for pid in (first, sudo, last)]
    system = DarwinSystem(FakeLibrary(), FakeSelect())
    monkeypatch.setattr(system, "list_processes", lambda: entries)
    monkeypatch.setattr(system, "reap_child", lambda pid: True)
    monkeypatch.setattr("os.kill", kill)

    assert system.kill_children() == 2
    assert {pid for pid, number in signals if number == signal.SIGKILL} == {first, last}


def test_blocks_are_never_allocated_and_a_file_is_synced_in_full_or_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    with (tmp_path / "file").open("wb") as file:
        with pytest.raises(OSError, match="not supported"):
            darwin_disks.allocate_blocks(file.fileno(), 0, 10)

        def note(_fd: int, command: int) -> None:
            asked.append(command)

        monkeypatch.setattr(darwin_disks.fcntl, "fcntl", note)
        darwin_disks.sync_data(file.fileno())
        assert asked == [51]

        def refuse(_fd: int, _command: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(darwin_disks.fcntl, "fcntl", refuse)
        number = errno.ENOTSUP
        darwin_disks.sync_data(file.fileno())
        number = errno.EIO
        with pytest.raises(OSError, match="Input/output"):
            darwin_disks.sync_data(file.fileno())


def test_a_file_is_flushed_to_the_disk_before_its_name_is_and_then_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[int, str, bool]] = []

    def note(fd: int, command: int) -> None:
        flushed.append((command, os.readlink(f"/proc/self/fd/{fd}"), (tmp_path / "file").exists()))

    monkeypatch.setattr(darwin_disks.fcntl, "fcntl", note)
    monkeypatch.setattr(directories, "sync_all", darwin_disks.sync_all)

    directories.replace_file(str(tmp_path / "file"), b"new")

    assert flushed == [(51, f"{tmp_path}/file.new", False), (51, str(tmp_path), True)]
