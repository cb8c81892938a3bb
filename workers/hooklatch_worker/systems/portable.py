"""The names of `linux.py` for other systems, by the means of POSIX.

A system adds its own calls to `PortableSystem`: the list of processes, a descriptor that shows a process's end, and the
hangup of a socket.  What Linux has and this has not:

    orphans    are adopted by no process of ours.  They are found by their session, which is that of their worker unless
               they have made one of their own, and by their parents as long as these live
    parents    a process that is to die with its parent has a watcher, which kills it.  It can be killed itself
    handles    are those of one process: they are not sent, and do not outlive a fork.  A signal is sent by pid, after a
               look whether the process still runs
    privileges set-user-id programs can be started, and a process's memory is what the system protects
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import socket
import stat
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

__all__ = ["MessageSocket", "PortableSystem", "ProcessEntry", "WatchedDescriptors"]

FREEZE_TIMEOUT = 0.5  # seconds; an unstoppable process must not block us
LOOK_INTERVAL = 0.001  # seconds between two looks, for stopping processes to come to rest
AT_REST = b"TZX"
LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LENGTH = struct.Struct("!I")
MAX_MESSAGE = 2**16  # bytes
BUFFER = 4 * MAX_MESSAGE  # of a socket: a message goes in whole unless its reader is stuck
MOST_FDS = 2**20


class ProcessEntry(NamedTuple):
    """A process in the system's list; `started` orders them, `state` is T if stopped, Z if ended and not reaped."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    state: bytes
    name: bytes = b""


class WatchedDescriptors(Protocol):
    """Descriptors that are waited for as one: its own is readable when one of them is ready."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...

    def add(self, fd: int) -> None: ...

    def add_hangup(self, fd: int) -> None:
        """Wait until the peer of a socket has closed it, which is not so when it only sends no more."""

    def remove(self, fd: int) -> None: ...

    def take(self) -> list[int]:
        """Return the descriptors that are ready, of those that are waited for by `add_hangup`."""
        ...


class MessageSocket(socket.socket):
    """One end of a stream of messages, each behind its length.  Its descriptors come with its first byte."""

    def __init__(self, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self.received = bytearray()  # of a message that is not here in whole yet
        self.fds: list[int] = []


class PortableSystem(ABC):
    """The calls that differ by system.  A handle is a descriptor that is readable once its process has ended."""

    ADOPTS_ORPHANS = False  # whether a process can become the parent of its orphaned descendants
    CONFINES = False  # whether there are Landlock and filters of system calls
    SHARES_HANDLES = False  # whether handles can be sent, and outlive a fork
    OTHER_SIGNALS: tuple[int, ...] = ()  # those beyond POSIX that end a process
    LOOKS = 0  # the flag of an open that only looks
    NEEDS = "a system with kqueue"
    EventSet: type[WatchedDescriptors]

    def __init__(self) -> None:
        self._sessions: set[int] = set()  # of children that may have left processes

    # -- what each system adds -------------------------------------------------------------------------------------

    @abstractmethod
    def is_supported(self) -> bool:
        """Return whether this system meets the daemon's needs."""

    @abstractmethod
    def list_processes(self) -> list[ProcessEntry]:
        """Return all processes.

        Raises:
            OSError: they cannot be listed.
        """

    @abstractmethod
    def watch_process(self, pid: int) -> int:
        """Return a handle of a process; a child that has ended is one until it is reaped.

        Raises:
            OSError: there is no such process, or no descriptor left.
        """

    @abstractmethod
    def count_threads(self, pid: int) -> int:
        """Return how many threads a process has.

        Raises:
            OSError: it is gone, or cannot be read.
        """

    def count_cores(self) -> int:
        """Return how many processors this process may run on, as far as the system says."""
        return os.cpu_count() or 1

    # -- one process -----------------------------------------------------------------------------------------------

    def signal_process(self, handle: int, pid: int, number: int) -> None:
        """Send a signal to the process of a handle; SIGKILL also to all below it, which is not found afterwards.

        Raises:
            ProcessLookupError: it has ended.
        """
        if self.has_ended(handle):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        if number == signal.SIGKILL:
            self._kill_all([pid])
        else:
            os.kill(pid, number)

    def has_ended(self, *handles: int) -> bool:
        """Return whether any of these processes is dead, without blocking."""
        poll = select.poll()
        for handle in handles:
            poll.register(handle, select.POLLIN)
        return bool(poll.poll(0))

    def send_process(self, pid: int) -> list[int]:
        """Return the descriptors that let the receiver of a message watch a process; the caller closes them."""
        return []

    def receive_process(self, pid: int, fds: list[int]) -> list[int]:
        """Return the descriptors of a message about a process below this one, the last of which is its handle.

        The handle is missing where no descriptor is left.  It is of a dead process where another has the pid by now.
        """
        try:
            handle = self.watch_process(pid)
        except ProcessLookupError:
            return [*fds, make_ended_handle()]
        except OSError:
            return fds
        if not self._is_below(pid, os.getpid()):
            os.close(handle)
            handle = make_ended_handle()
        return [*fds, handle]

    def open_peer(self, stream: socket.socket, pid: int) -> int:
        """Return a handle of the process at the other end of a socket, whose pid was read from it.

        Raises:
            OSError: it is gone, as also where the pid is negative, since only its user is known.
        """
        if pid < 0:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return self.watch_process(pid)

    def is_same_process(self, handle: int, pid: int) -> bool:
        """Return whether the pid still belongs to the process; False if that cannot be known."""
        return not self.has_ended(handle)

    def read_parent_and_start(self, pid: int) -> tuple[int, int]:
        """Return a process's parent, and when it started, in units that only order processes of one boot.

        The parent of an orphan is the leader of its session; itself if that is gone or not known, as then it cannot be
        told whose the orphan is.

        Raises:
            OSError: it is gone, or hidden.
        """
        table = self._tabulate()
        entry = find_entry(table, pid)
        started = self.read_start(entry)
        if entry.parent != 1 or entry.session == pid:
            return entry.parent, started
        return entry.session if entry.session > 0 and entry.session in table else pid, started

    def read_start(self, entry: ProcessEntry) -> int:
        """Return when a process started, by a clock that is never set back."""
        return entry.started

    def read_name(self, pid: int) -> bytes:
        """Return the system's name of a process.

        Raises:
            OSError: it is gone, or hidden.
        """
        return find_entry(self._tabulate(), pid).name

    def read_process_state(self, pid: int) -> bytes:
        """Return a process's state, a letter as in proc(5): X if it is gone."""
        entry = self._tabulate().get(pid)
        return b"X" if entry is None else entry.state

    def become_subreaper(self) -> None:  # noqa: B027  (it is complete)
        """Become the parent of orphaned descendants: not here, where they are found by their session."""

    def make_unreadable(self) -> None:  # noqa: B027  (it is complete)
        """Keep other processes of the user from reading this one's memory: not here."""

    def forbid_new_privileges(self) -> None:  # noqa: B027  (it is complete)
        """Disable privileges from set-user-id programs: not here."""

    def wake_when_orphaned(self) -> None:  # noqa: B027  (it is complete)
        """Go on when the parent ends: POSIX continues the stopped processes of an orphaned group by itself."""

    def die_with_parent(self, parent_pid: int) -> None:
        """Have this process killed when its parent ends, and what is below it when it ends; exit if the parent has.

        A watcher does that, a process of its own that no other waits for.  Only for processes with one thread.
        """
        own = os.getpid()
        between = os.fork()
        if between == 0:
            code = 1
            try:
                if os.fork() == 0:
                    self._watch_over(own, parent_pid)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(between, 0)
        if status != 0 or os.getppid() != parent_pid:
            os._exit(0)

    def _watch_over(self, pid: int, parent_pid: int) -> None:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.close_from(0)  # above all sockets, whose other ends must notice when the process is gone
        try:
            process = self.watch_process(pid)
        except ProcessLookupError:
            process = make_ended_handle()
        except OSError:
            os.kill(pid, signal.SIGKILL)  # it must not live where it cannot be watched
            raise
        try:
            parent = self.watch_process(parent_pid)
        except OSError:  # it is gone, or cannot be watched, and then the process must not live
            parent = make_ended_handle()
        poll = select.poll()
        for handle in (process, parent):
            poll.register(handle, select.POLLIN)
        poll.poll()
        if not self.has_ended(process):
            self._kill_all([pid])
            poll.unregister(parent)
            poll.poll()
        while members := self._list_left(pid):
            self._kill_all(members)
            time.sleep(LOOK_INTERVAL)

    def _list_left(self, leader: int) -> list[int]:
        """Return what a dead process has left in its session; none if another has its pid, and so its session, by now.

        Its watcher kills that too: a parent that does may be killed itself meanwhile, and no other knows the session.
        """
        table = self._tabulate()
        if leader in table and table[leader].state != b"Z":
            return []
        left = [entry.pid for entry in table.values() if entry.session == leader and entry.state != b"Z"]
        return [pid for pid in left if may_signal(pid)]

    # -- many processes --------------------------------------------------------------------------------------------

    def _tabulate(self) -> dict[int, ProcessEntry]:
        return {entry.pid: entry for entry in self.list_processes()}

    def _is_below(self, pid: int, above: int) -> bool:
        table, seen = self._tabulate(), set[int]()
        while pid in table and pid not in seen:
            seen.add(pid)
            pid = table[pid].parent
            if pid == above:
                return True
        return False

    def list_children(self, pid: int | None = None) -> list[int]:
        """Return the direct children of a process (default: this one), including zombies; empty if it is gone."""
        above = os.getpid() if pid is None else pid
        return [entry.pid for entry in self.list_processes() if entry.parent == above]

    def list_descendants(self, pid: int) -> Iterator[int]:
        """Yield every descendant of a process, parents first, and the orphans in a session of any of them."""
        yield from list_below([pid], self.list_processes())

    def freeze_processes(self, roots: Iterable[int], *, timeout: float = FREEZE_TIMEOUT) -> set[int]:
        """Stop processes and all their descendants, so that none starts another; return all of them."""
        roots = list(roots)
        frozen: set[int] = set()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            table = self._tabulate()
            is_still = all(pid not in table or table[pid].state in AT_REST or not may_signal(pid) for pid in frozen)
            new_pids = {*roots, *list_below(roots, table.values())} - frozen
            if is_still and not new_pids:
                break
            for pid in new_pids:
                with suppress(ProcessLookupError, PermissionError):  # another user's, such as sudo, is left running
                    os.kill(pid, signal.SIGSTOP)
            frozen |= new_pids
            time.sleep(LOOK_INTERVAL)
        return frozen

    def kill_children(self, *, keep: frozenset[int] = frozenset()) -> int:
        """SIGKILL every child of this process except those in `keep`, with its descendants; return how many were left.

        Those that are left include the orphans in the sessions of earlier children.  Dead children are reaped: call it
        again until it returns 0.
        """
        table, own = self._tabulate(), os.getpid()
        children = [entry.pid for entry in table.values() if entry.parent == own and entry.pid not in keep]
        self._sessions.update(keep, children)
        # A session's number is not used again while it has members, so one without any is forgotten at the end.
        over = {pid for pid in self._sessions - keep if pid not in table or table[pid].parent == own}
        self._sessions &= over | keep
        orphans = [entry.pid for entry in table.values() if entry.session in over and entry.pid not in children]
        condemned = [pid for pid in (*children, *orphans) if pid != own and may_signal(pid)]
        if condemned:
            self._kill_all(condemned)
        for pid in children:
            self.reap_child(pid)
        if not condemned:
            self._sessions -= over
        return len(condemned)

    def _kill_all(self, roots: Iterable[int]) -> None:
        roots = list(roots)
        try:
            condemned = self.freeze_processes(roots)
        except OSError:  # what is below them cannot be listed: at least they end
            condemned = set(roots)
        for pid in condemned:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def reap_child(self, pid: int) -> bool:
        """Reap a child if it is dead; return whether it is gone, also if it was reaped before."""
        try:
            return os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            return True

    # -- sockets, pipes and files ----------------------------------------------------------------------------------

    def make_message_pair(self) -> tuple[socket.socket, socket.socket]:
        """Return two ends of a connection that keeps messages apart, each with its descriptors."""
        ours, theirs = (MessageSocket(end.detach()) for end in socket.socketpair())
        for end in (ours, theirs):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, BUFFER)
        return ours, theirs

    def open_message_socket(self, fd: int) -> socket.socket:
        """Return the end of such a connection that a descriptor is."""
        return MessageSocket(fd)

    def send_message(self, end: socket.socket, data: bytes, fds: list[int] | None = None, *, wait: bool = True) -> None:
        """Send a message, whole or not at all.

        Raises:
            BlockingIOError: there is no room, and the socket or `wait` does not let it wait.
            OSError: the other end is gone, or can be given no message any more.
        """
        frame = LENGTH.pack(len(data)) + data
        flags = 0 if wait else socket.MSG_DONTWAIT
        sent = socket.send_fds(end, [frame], fds, flags) if fds else end.send(frame, flags)
        if sent < len(frame) and not end.getblocking():
            end.shutdown(socket.SHUT_RDWR)  # half a message would be the beginning of the next one
            raise OSError(errno.ENOBUFS, "the other end reads no more")
        while sent < len(frame):
            sent += end.send(frame[sent:])

    def receive_message(self, end: socket.socket, most_fds: int = 0) -> tuple[bytes, list[int]]:
        """Return the next message with its descriptors, which no program inherits; an empty one if the end is gone.

        Raises:
            BlockingIOError: there is none yet.
            OSError: the bytes that come are not a message.
        """
        assert isinstance(end, MessageSocket)
        while (missing := count_missing(end.received)) > 0:
            data, fds, _, _ = socket.recv_fds(end, missing, most_fds)
            for fd in fds:
                os.set_inheritable(fd, False)
            end.fds += fds
            end.received += data
            if not data:
                break
        data, fds = bytes(end.received[LENGTH.size :]), end.fds
        end.received, end.fds = bytearray(), []
        if missing:
            for fd in fds:
                os.close(fd)
            return b"", []
        return data, fds

    def make_wakeup_pipe(self) -> tuple[int, int]:
        """Return the ends of a pipe on which nothing waits, and which no program inherits."""
        ends = os.pipe()
        for end in ends:
            os.set_blocking(end, False)
        return ends

    def close_from(self, low: int) -> None:
        """Close every descriptor from this one on."""
        try:
            fds = [int(name) for name in os.listdir("/dev/fd")]
        except (OSError, ValueError):
            os.closerange(low, MOST_FDS)
            return
        for fd in fds:
            if fd >= low:
                with suppress(OSError):  # that of the list itself
                    os.close(fd)

    def make_anonymous_file(self, name: str) -> int:
        """Return a descriptor of an empty file without a path, which no program inherits."""
        path = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"hooklatch-{name}-{os.urandom(8).hex()}")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        return fd

    def make_bounded_file(self, name: str, size: int) -> int:
        """Return an empty anonymous file: none has a fixed size here, so who has it written looks at its size."""
        return self.make_anonymous_file(name)

    @contextmanager
    def expose_file(self, fd: int) -> Generator[str]:
        """Give an anonymous file a path for the block, for what takes a path alone: a copy that this user can read."""
        import tempfile  # only here: few sources have compiled modules

        with tempfile.NamedTemporaryFile(prefix="hooklatch-") as file:
            at = 0
            while data := os.pread(fd, 2**16, at):
                file.write(data)
                at += len(data)
            file.flush()
            yield file.name

    def look_at(self, name: str, folder: int | None = None) -> tuple[int, os.stat_result, str]:
        """Return an entry of a folder: a descriptor of it and its status; of a link -1, its status and where it leads.

        Raises:
            OSError: it cannot be opened; or it is a link in a folder where others can put one in its place.
        """
        try:
            fd = os.open(name, LOOK, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        else:
            return fd, os.fstat(fd), ""
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if folder is not None and os.fstat(folder).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EPERM, "it is a link in a folder that others can write to")
        return -1, status, os.readlink(name, dir_fd=folder)

    def open_looked(self, fd: int) -> io.FileIO:
        """Open the very file that a descriptor of `look_at` is of: its path may lead to another by now."""
        return open(os.dup(fd), "rb", buffering=0)


def may_signal(pid: int) -> bool:
    """Return whether a process can be stopped and killed: one of another user, such as sudo, cannot."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass  # gone: there is nothing to wait for
    return True


def make_ended_handle() -> int:
    """Return a handle that says that its process has ended."""
    read_end, write_end = os.pipe()
    os.close(write_end)
    return read_end


def find_entry(table: dict[int, ProcessEntry], pid: int) -> ProcessEntry:
    if pid not in table:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return table[pid]


def list_below(roots: Collection[int], entries: Iterable[ProcessEntry]) -> list[int]:
    """Return the processes below roots, parents first: children, and orphans in a session that one of them leads."""
    left = [entry for entry in entries if entry.pid not in roots and entry.pid not in (0, 1, os.getpid())]
    found, known = list[int](), set(roots)
    while True:
        new = [entry for entry in left if entry.parent in known or entry.session in known]
        if not new:
            return found
        found += [entry.pid for entry in new]
        known.update(entry.pid for entry in new)
        left = [entry for entry in left if entry.pid not in known]


def count_missing(received: bytearray) -> int:
    """Return how many bytes of a message are to be read next, its length first."""
    if len(received) < LENGTH.size:
        return LENGTH.size - len(received)
    (length,) = LENGTH.unpack_from(received)
    if length > MAX_MESSAGE:
        raise OSError(errno.EBADMSG, f"a message of {length} bytes is over the limit of {MAX_MESSAGE}")
    return LENGTH.size + int(length) - len(received)
