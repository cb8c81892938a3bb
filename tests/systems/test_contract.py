"""What differs by system does the same on each: on Linux, and on a portable one that has Linux's kernel below it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hooklatch_worker.systems import linux
from support.daemons import nothing_left
from systems.stand_in import LinuxKernel, StandInSystem

SYSTEMS: list[Any] = [linux, StandInSystem(LinuxKernel())]
PATIENCE = 20  # seconds
each = pytest.mark.parametrize("system", SYSTEMS, ids=["linux", "portable"])


def wait_readable(fd: int) -> None:
    assert select.select([fd], [], [], PATIENCE)[0], "it never became readable"


def until(holds: Callable[[], object]) -> None:
    """Wait until something is so, of which no descriptor tells."""
    poll = select.poll()
    for _ in range(PATIENCE * 1000):
        if holds():
            return
        poll.poll(1)
    raise AssertionError("it never came to be so")


@contextmanager
def program(code: str, *words: str) -> Generator[subprocess.Popen[bytes]]:
    """Run Python code, which ends with its standard input; it has told a line when the block begins."""
    command = [sys.executable, "-I", "-S", "-c", code, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline()
            yield started
        finally:
            started.kill()


WAITS = "import sys\nprint('here', flush=True)\nsys.stdin.read()"


def forked(run: Callable[[], object]) -> int:
    """Run a function in a process of its own."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            run()
        os._exit(0)
    return pid


# -- one process -------------------------------------------------------------------------------------------------


@each
def test_a_handle_is_readable_when_its_process_has_ended_and_not_before(system: Any) -> None:
    with nothing_left():
        with program(WAITS) as process:
            handle = system.watch_process(process.pid)
            assert not system.has_ended(handle)

            system.signal_process(handle, process.pid, signal.SIGKILL)

            wait_readable(handle)
            assert system.has_ended(handle)
            assert process.wait() == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            system.signal_process(handle, process.pid, signal.SIGKILL)
        os.close(handle)


@each
def test_a_child_that_has_ended_and_is_not_reaped_has_a_handle(system: Any) -> None:
    with nothing_left():
        pid = forked(lambda: None)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

        handle = system.watch_process(pid)

        assert system.has_ended(handle)
        assert system.read_process_state(pid) == b"Z"
        os.close(handle)
        assert system.reap_child(pid)
        assert system.reap_child(pid)
        with pytest.raises(ProcessLookupError):
            system.watch_process(pid)
        assert system.read_process_state(pid) == b"X"


@each
def test_the_receiver_of_a_message_about_a_process_can_watch_it(system: Any) -> None:
    with nothing_left(), program(WAITS) as process:
        sent = system.send_process(process.pid)
        fds = system.receive_process(process.pid, [os.dup(fd) for fd in sent])

        process.kill()

        wait_readable(fds[-1])
        for fd in {*sent, *fds}:
            os.close(fd)


def test_a_pid_that_is_not_below_the_receiver_is_taken_for_that_of_a_dead_process() -> None:
    portable = SYSTEMS[1]
    with nothing_left():
        for pid in (os.getppid(), 2**22 - 1):
            (handle,) = portable.receive_process(pid, [])

            assert portable.has_ended(handle)
            os.close(handle)


@each
def test_a_peer_is_the_same_process_until_it_is_gone(system: Any) -> None:
    one, other = socket.socketpair()
    with one, other:
        handle = system.open_peer(one, os.getpid())

        assert system.is_same_process(handle, os.getpid())
        assert system.read_name(os.getpid()) == Path("/proc/self/comm").read_bytes().rstrip()
        assert system.count_threads(os.getpid()) == len(os.listdir("/proc/self/task"))
        os.close(handle)


@each
def test_the_parent_of_a_process_and_the_order_of_two_are_known(system: Any) -> None:
    with program(WAITS) as process:
        parent, started = system.read_parent_and_start(process.pid)

        assert parent == os.getpid()
        assert started > system.read_parent_and_start(os.getpid())[1] > system.read_parent_and_start(1)[1]
    with pytest.raises(OSError):  # noqa: PT011  (whichever)
        system.read_parent_and_start(process.pid)


@each
def test_what_dies_with_its_parent_dies_with_what_is_below_it(system: Any) -> None:
    """Killed as they are: the parent can do nothing any more."""
    told, tells = os.pipe()

    def be_child(parent: int) -> None:
        system.die_with_parent(parent)
        os.setsid()
        system.become_subreaper()
        below = forked(signal.pause)
        os.write(tells, f"{os.getpid()} {below}\n".encode())
        signal.pause()

    def be_parent() -> None:
        own = os.getpid()
        forked(lambda: be_child(own))
        signal.pause()

    parent = forked(be_parent)
    wait_readable(told)
    child, below = map(int, os.read(told, 100).split())
    handles = [os.pidfd_open(pid) for pid in ([child, below] if system is not linux else [child])]

    os.kill(parent, signal.SIGKILL)

    for handle in handles:
        wait_readable(handle)
        os.close(handle)
    os.waitpid(parent, 0)
    with suppress(ProcessLookupError):
        os.kill(below, signal.SIGKILL)  # on Linux that is for the subreaper above
    os.close(told)
    os.close(tells)


@each
def test_what_would_die_with_a_parent_that_is_gone_ends_at_once(system: Any) -> None:
    def live_on() -> None:
        system.die_with_parent(1)
        os._exit(7)

    pid = forked(live_on)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# -- many processes ----------------------------------------------------------------------------------------------

TREE = """
import os, sys
for _ in range(3):
    if os.fork():
        break
if os.getpid() == int(sys.argv[1] or 0) or True:
    os.write(1, b"%d\\n" % os.getpid())
sys.stdin.read()
"""


@each
def test_all_that_is_below_a_process_is_listed_parents_first(system: Any) -> None:
    with program(TREE, "") as process:
        until(lambda: len(list(system.list_descendants(process.pid))) == 3)

        found = list(system.list_descendants(process.pid))

        assert found == list(linux.list_descendants(process.pid))
        assert system.list_children(process.pid) == found[:1]
        assert process.pid in system.list_children()
        frozen = system.freeze_processes([process.pid])
        assert frozen == {process.pid, *found}
        assert {system.read_process_state(pid) for pid in frozen} == {b"T"}
        for pid in found:
            os.kill(pid, signal.SIGKILL)


@each
def test_all_children_are_killed_with_their_descendants_but_not_those_to_keep(system: Any) -> None:
    """In a process of its own, which has no other children."""
    told, tells = os.pipe()

    def run() -> None:
        system.become_subreaper()
        kept = forked(signal.pause)
        lost = forked(lambda: (os.setsid(), forked(signal.pause), signal.pause()))
        until(lambda: len(list(linux.list_descendants(lost))) == 1)
        (below,) = linux.list_descendants(lost)
        handles = [os.pidfd_open(lost), os.pidfd_open(below)]
        until(lambda: system.kill_children(keep=frozenset({kept})) == 0)
        for handle in handles:
            wait_readable(handle)
        assert linux.list_children() == [kept]
        until(lambda: system.kill_children() == 0)
        assert linux.list_children() == []
        os.write(tells, b"done")

    pid = forked(run)

    os.waitpid(pid, 0)
    os.close(tells)
    assert os.read(told, 10) == b"done"
    os.close(told)


@each
def test_an_orphan_that_a_dead_child_has_left_is_killed(system: Any) -> None:
    """In the session of the child; where orphans are adopted, in any."""
    told, tells = os.pipe()

    def run() -> None:
        system.become_subreaper()
        child = forked(lambda: (os.setsid(), os.write(tells, f"{forked(signal.pause)}\n".encode()), signal.pause()))
        wait_readable(told)
        orphan = os.pidfd_open(int(os.read(told, 20)))
        assert system.kill_children(keep=frozenset({child})) == 0
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        until(lambda: system.kill_children() == 0)
        wait_readable(orphan)
        os.write(tells, b"done")

    pid = forked(run)

    os.waitpid(pid, 0)
    os.close(tells)
    assert os.read(told, 10) == b"done"
    os.close(told)


def test_the_parent_of_an_orphan_is_the_leader_of_its_session_or_nobody_that_is_known() -> None:
    portable = SYSTEMS[1]
    told, tells = os.pipe()

    def lead() -> None:
        os.setsid()
        between = forked(lambda: os.write(tells, f"{forked(signal.pause)}\n".encode()))
        os.waitpid(between, 0)
        signal.pause()

    leader = forked(lead)
    wait_readable(told)
    orphan = int(os.read(told, 20))
    until(lambda: linux.read_parent_and_start(orphan)[0] == 1)

    assert portable.read_parent_and_start(orphan)[0] == leader
    os.kill(leader, signal.SIGKILL)
    os.waitpid(leader, 0)
    assert portable.read_parent_and_start(orphan)[0] == orphan
    os.kill(orphan, signal.SIGKILL)
    os.close(told)
    os.close(tells)


# -- sockets, pipes and files ------------------------------------------------------------------------------------


@each
def test_messages_are_kept_apart_and_their_descriptors_come_with_them(system: Any) -> None:
    with nothing_left():
        one, other = system.make_message_pair()
        with one, other:
            told, tells = os.pipe()
            system.send_message(one, b"first")
            system.send_message(one, b"second" * 1000, [tells])
            system.send_message(one, b"third", [told, tells])
            os.close(told)
            os.close(tells)

            assert system.receive_message(other, 5) == (b"first", [])
            data, fds = system.receive_message(other, 5)
            assert (data, len(fds)) == (b"second" * 1000, 1)
            data, more = system.receive_message(other, 5)
            assert (data, len(more)) == (b"third", 2)
            if system is not linux or sys.version_info >= (3, 13):  # before, `recv_fds` ignores its flags
                assert not any(os.get_inheritable(fd) for fd in [*fds, *more])
            os.write(fds[0], b"x")
            assert os.read(more[0], 2) == b"x"
            for fd in [*fds, *more]:
                os.close(fd)
            other.setblocking(False)
            with pytest.raises(BlockingIOError):
                system.receive_message(other)
            one.close()
            assert system.receive_message(other) == (b"", [])


@each
def test_an_end_works_by_its_descriptor_too(system: Any) -> None:
    with nothing_left():
        one, other = system.make_message_pair()
        with one, system.open_message_socket(other.detach()) as opened:
            system.send_message(opened, b"word")

            assert system.receive_message(one) == (b"word", [])


@each
def test_nobody_waits_for_an_end_that_reads_nothing(system: Any) -> None:
    for blocks in (True, False):
        one, other = system.make_message_pair()
        with one, other:
            one.setblocking(blocks)
            if blocks and system is not linux:
                other.setblocking(False)
            with pytest.raises(OSError, match=r"temporarily unavailable|reads no more"):  # noqa: PT012
                while True:
                    system.send_message(one, bytes(1000), wait=False)


def test_a_message_that_only_half_fits_ends_the_connection() -> None:
    """Otherwise the next one would be read as its rest."""
    portable = SYSTEMS[1]
    one, other = portable.make_message_pair()
    with one, other:
        one.setblocking(False)
        with pytest.raises(OSError):  # noqa: PT011, PT012  (of either kind)
            while True:
                portable.send_message(one, bytes(60_000))
        while (received := portable.receive_message(other)[0]) != b"":
            assert received == bytes(60_000)


def test_a_message_that_announces_too_much_is_none() -> None:
    portable = SYSTEMS[1]
    one, other = portable.make_message_pair()
    with one, other:
        one.send(b"\xff\xff\xff\xff")
        with pytest.raises(OSError, match="over the limit"):
            portable.receive_message(other)


def test_a_message_in_pieces_is_read_when_it_is_whole() -> None:
    portable = SYSTEMS[1]
    one, other = portable.make_message_pair()
    with one, other:
        other.setblocking(False)
        for piece in (b"\0\0", b"\0\5ab", b"cd"):
            one.send(piece)
            with pytest.raises(BlockingIOError):
                portable.receive_message(other)
        one.send(b"e")

        assert portable.receive_message(other) == (b"abcde", [])


@each
def test_a_set_of_descriptors_is_ready_when_one_of_them_is(system: Any) -> None:
    with nothing_left():
        events, (told, tells) = system.EventSet(), os.pipe()
        events.add(told)
        assert not select.select([events.fileno()], [], [], 0)[0]

        os.write(tells, b"x")

        wait_readable(events.fileno())
        for fd in (told, tells):
            os.close(fd)
        events.close()


@each
def test_a_peer_that_only_sends_no_more_has_not_hung_up(system: Any) -> None:
    with nothing_left():
        one, other = socket.socketpair()
        with one, other:
            events = system.EventSet()
            events.add_hangup(one.fileno())
            other.shutdown(socket.SHUT_WR)
            assert events.take() == []

            other.close()

            wait_readable(events.fileno())
            assert events.take() == [one.fileno()]
            events.remove(one.fileno())
            events.close()


@each
def test_nothing_waits_on_a_pipe_that_wakes(system: Any) -> None:
    told, tells = system.make_wakeup_pipe()
    with pytest.raises(BlockingIOError):
        os.read(told, 1)
    with pytest.raises(BlockingIOError):  # noqa: PT012
        while True:
            os.write(tells, bytes(2**16))
    assert not os.get_inheritable(told)
    os.close(told)
    os.close(tells)


@each
def test_every_descriptor_from_one_on_is_closed(system: Any) -> None:
    told, tells = os.pipe()

    def run() -> None:
        os.dup2(tells, 3)
        high = os.dup(3)
        system.close_from(4)
        try:
            os.fstat(high)
        except OSError:
            os.write(3, b"closed")

    pid = forked(run)

    os.waitpid(pid, 0)
    os.close(tells)
    assert os.read(told, 10) == b"closed"
    os.close(told)


@each
def test_an_anonymous_file_has_no_path_and_no_program_inherits_it(
    system: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with nothing_left():
        fd = system.make_anonymous_file("output")
        os.write(fd, b"abc")
        os.ftruncate(fd, 2)

        assert os.pread(fd, 10, 0) == b"ab"
        assert not os.get_inheritable(fd)
        assert list(tmp_path.iterdir()) == []
        with system.expose_file(fd) as path:
            assert Path(path).read_bytes() == b"ab"
        assert list(tmp_path.iterdir()) == []
        os.close(fd)


def test_a_file_of_a_fixed_size_stays_so() -> None:
    with nothing_left():
        fd = linux.make_bounded_file("output", 10)
        for size in (9, 11):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        os.close(fd)


def test_where_no_file_keeps_its_size_who_reads_it_sees_how_long_it_is() -> None:
    with nothing_left():
        fd = SYSTEMS[1].make_bounded_file("output", 10)
        assert os.fstat(fd).st_size == 0
        os.write(fd, b"more than ten")
        assert os.fstat(fd).st_size == 13
        os.close(fd)


@each
def test_an_entry_is_looked_at_without_its_link_and_read_as_it_was(system: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("first")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with nothing_left():
        folder, status, target = system.look_at(str(tmp_path))
        assert (status.st_ino, target) == (tmp_path.stat().st_ino, "")
        fd, status, target = system.look_at("file", folder)
        (tmp_path / "other").write_text("second")
        (tmp_path / "other").rename(tmp_path / "file")
        with system.open_looked(fd) as file:
            assert file.read() == b"first"
        assert status.st_ino == os.fstat(fd).st_ino
        none, status, target = system.look_at("link", folder)
        assert (none, status.st_ino, target) == (-1, os.lstat(tmp_path / "link").st_ino, "file")
        pipe, _, _ = system.look_at("pipe", folder)  # nobody waits for whoever would write
        with pytest.raises(FileNotFoundError):
            system.look_at("nothing", folder)
        for one in (fd, folder, pipe):
            os.close(one)


def test_a_link_in_a_folder_that_others_can_write_to_is_refused_where_it_can_be_replaced(tmp_path: Path) -> None:
    portable = SYSTEMS[1]
    (tmp_path / "link").symlink_to("file")
    tmp_path.chmod(0o1777)
    with nothing_left():
        folder, _, _ = portable.look_at(str(tmp_path))
        with pytest.raises(PermissionError, match="others can write to"):
            portable.look_at("link", folder)
        os.close(folder)
