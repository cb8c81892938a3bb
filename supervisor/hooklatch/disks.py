"""Lookups of paths that no disk can block for long.  Knows mounts and threads; does not know the purpose of a lookup.

A local file system answers, or fails, since this machine's kernel serves it.  A file system behind a server (NFS, SMB,
FUSE, 9p) answers when the server does, and a thread that waits for it cannot be stopped.

    local    looked at by the caller itself
    away     by a thread, for at most PATIENCE, one look at a time on each disk
    late     a look that took longer fails with ETIMEDOUT, and until it returns each one on that disk does, at once

To which disk a path leads is found without touching that disk: by the kernel's list of mounts, and step by step along
the path, with its links, as far as disks are known to answer.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial, wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from hooklatch_worker.systems.disks import away_now, is_plain

__all__ = [
    "PATIENCE", "LookupThread", "ResolvedPath", "away_now", "find_disk", "look_here", "limit_look", "limit_tree_look",
    "is_plain", "find_lane", "resolve_path",
]  # fmt: skip

PATIENCE = 2.0  # seconds for one look; a gate that waits for one has 5 s or more by default
MAX_LINKS = 40  # symbolic links per path, as in the kernel (path_resolution(7))
P = ParamSpec("P")
T = TypeVar("T")


# -- which disk --------------------------------------------------------------------------------------------------


class ResolvedPath(NamedTuple):
    """The end of a path, links followed; `disk` is the disk at which the lookup stopped, None if it did not.

    `steps` are the directories that exist along it, each with the name that was looked up there.
    """

    end: str
    disk: str | None
    steps: list[tuple[str, str]]


def resolve_path(path: str, away: Mapping[str, str], answering: Collection[str] = ()) -> ResolvedPath:
    """Follow an absolute path on local disks, and on those that are `answering`.  What is missing stays as named.

    Raises:
        OSError: a step of it cannot be looked up.
        ValueError: it has a null byte.
    """
    where, names, steps, links, is_there = "", split_path(path), list[tuple[str, str]](), 0, True
    if away.get("/", "") not in ("", *answering):
        return ResolvedPath("/", away["/"], steps)
    while names:
        name = names.pop()
        if name == "..":
            where = where.rpartition("/")[0]
            continue
        if is_there:
            steps.append((where or "/", name))
        at = f"{where}/{name}"
        if (disk := away.get(at)) is not None and disk not in answering:
            return ResolvedPath(at, disk, steps)
        try:
            is_link = stat.S_ISLNK(os.lstat(at).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            where, is_there = at, False
            continue
        if not is_link:
            where = at
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(at)
        names += split_path(target)
        where = "" if target.startswith("/") else where
    return ResolvedPath(where or "/", None, steps)


def split_path(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def find_disk(path: str, *, is_tree: bool = False) -> str | None:
    """Return the first disk on the way to a path, or below it, that may not answer; None if all of it is local."""
    away = away_now()
    if not is_plain(path, away):
        return find_next_disk(path, away, (), is_tree=is_tree)
    return find_disk_below(path, away, ()) if is_tree else None


def find_next_disk(path: str, away: Mapping[str, str], answering: Collection[str], *, is_tree: bool) -> str | None:
    try:
        end, disk, _ = resolve_path(os.path.join(os.getcwd(), path), away, answering)
    except (OSError, ValueError):
        return None  # the caller's own lookup fails with the same error
    return find_disk_below(end, away, answering) if disk is None and is_tree else disk


def find_disk_below(folder: str, away: Mapping[str, str], answering: Collection[str]) -> str | None:
    below = f"{folder.rstrip('/')}/"
    return next((disk for at, disk in away.items() if at.startswith(below) and disk not in answering), None)


# -- one look at a time ------------------------------------------------------------------------------------------


class ThreadDisks(threading.local):
    """The facts about the current thread: the disks that it may wait for."""

    answering: tuple[str, ...] = ()
    is_checked = False


HERE = ThreadDisks()


class LookupThread:
    """A thread that runs one look at a time; a look that takes longer than `timeout` seconds is given up."""

    def __init__(self, place: str, timeout: float = PATIENCE) -> None:
        self._place = place
        self._timeout = timeout
        self._turn = threading.Lock()
        self._ending = threading.Lock()  # a look returns, or is given up: whichever comes first
        self._since: str | None = None  # when a look began that was given up and has not returned

    def look(self, look: Callable[[], T], answering: tuple[str, ...] = ()) -> T:
        """Return the result of a look.

        Raises:
            TimeoutError: the look takes too long, or the look before it still does.
        """
        latest = time.monotonic() + self._timeout
        if self._since is not None or not self._turn.acquire(timeout=self._timeout):
            raise self._late()
        answer, began = Future[T](), time.strftime("%H:%M:%S")
        thread = threading.Thread(target=self._run, args=(look, answer, answering), name=self._place, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._turn.release()
            raise OSError(errno.EAGAIN, "no thread is left to look at it", self._place) from None
        try:
            return answer.result(max(0.0, latest - time.monotonic()))
        except TimeoutError:
            with self._ending:
                if not answer.done():
                    self._since = began
                    raise self._late() from None
            return answer.result()

    def _run(self, look: Callable[[], T], answer: Future[T], answering: tuple[str, ...]) -> None:
        HERE.answering = answering
        try:
            found, error = look(), None
        except BaseException as failed:  # it is the caller's
            found, error = None, failed
        with self._ending:
            self._since = None
            self._turn.release()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(found)  # type: ignore[arg-type]  # without an error it is a T

    def _late(self) -> TimeoutError:
        since = f"has not answered since {self._since}" if self._since is not None else "is busy"
        return TimeoutError(errno.ETIMEDOUT, f"{self._place} {since}")


LANES: dict[str, LookupThread] = {}


def find_lane(key: str, place: str, timeout: float = PATIENCE) -> LookupThread:
    """Return the lane of what has this key: a disk, or something else that may not answer; errors call it `place`."""
    return LANES.get(key) or LANES.setdefault(key, LookupThread(place, timeout))


def look_within_time(path: str, look: Callable[[], T], away: Mapping[str, str], *, is_tree: bool) -> T:
    """Look at a path, from the thread of its disk if that may not answer."""
    answering = HERE.answering
    find = partial(find_next_disk, path, away, is_tree=is_tree)
    try:
        disk, own = find(answering), None
        while disk is not None:
            place = next(at for at, other in away.items() if other == disk)
            answering, own = (*answering, disk), find_lane(disk, f"the disk at {place}")
            disk = own.look(partial(find, answering), answering)
        return look() if own is None else own.look(look, answering)
    except TimeoutError as error:
        raise TimeoutError(error.errno, error.strerror, path) from None


def limit_look(look: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """Have a function that looks at a path end: where the disk is late, it raises a TimeoutError (an OSError)."""

    @wraps(look)
    def looked(path: str, /, *args: P.args, **named: P.kwargs) -> T:
        if HERE.is_checked or is_plain(path, is_there=False):
            return look(path, *args, **named)
        return look_within_time(path, partial(look, path, *args, **named), away_now(), is_tree=False)

    return looked


def limit_tree_look(look: Callable[[str], T]) -> Callable[[str], T]:
    """Have a function end that looks at a directory and all that is below it, as `limit_look` does."""

    @wraps(look)
    def looked(path: str, /) -> T:
        if HERE.is_checked:
            return look(path)
        return look_within_time(path, partial(look, path), away_now(), is_tree=True)

    return looked


def look_here(look: Callable[[str], T], path: str) -> T:
    """Call a function that looks at one path alone, of which `find_disk` has just said that it is local."""
    HERE.is_checked = True
    try:
        return look(path)
    finally:
        HERE.is_checked = False
