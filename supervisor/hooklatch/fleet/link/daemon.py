"""The daemon as its link sees it: its answers, and the connection on its admin socket.

It connects when there is a request, each time with the token that is in the file then, since every daemon makes its
own.  There is one request at a time.  A daemon that does not answer in time is given up with its connection.
"""

from __future__ import annotations

import base64
import errno
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import trio

from hooklatch.client.trio_admin import TIMEOUT, AdminConnector, TrioAdminConnection
from hooklatch.errors import HooklatchError, RequestFailedError
from hooklatch.files import open_regular
from hooklatch.fleet.manifests import START, BundleVersion, PolicyHead, PolicyVersions
from hooklatch.fleet.reports import EngineFault
from hooklatch.paths import FLEET_TOKEN

__all__ = ["DaemonAbsentError", "DaemonRefusedError", "FollowAnswer", "DaemonSocket"]


class DaemonAbsentError(Exception):
    """The daemon is not there, does not answer, or is not in a fleet: try again later.  The text says which."""


class DaemonRefusedError(Exception):
    """The daemon refuses a request; it has applied nothing of it."""


class FollowAnswer(PolicyVersions, frozen=True, kw_only=True):
    """The state of the daemon: the versions that it has read, should have and has applied, and why they differ.

    `policies` are those of each policy; `wanted` and `applied` the newest of all.
    `floor` is the newest version that was ever active, `engine` the fault that the daemon knows of the engine.
    `stale_s`: seconds since it was last known to be at the engine's head, None if it never was.
    """

    head: PolicyHead = START
    problem: str | None = None
    host: str | None = None
    labels: tuple[str, ...] = ()
    health: str = "ready"
    revision: int = 0
    stale_s: float | None = None
    engine: EngineFault | None = None
    floor: PolicyHead = START
    policies: dict[str, PolicyVersions] = msgspec.field(default_factory=dict[str, PolicyVersions])
    key_set: int = 0

    @property
    def outstanding(self) -> list[BundleVersion]:
        """Return the versions that the daemon should have and has not."""
        found = (policy.wanted for policy in self.policies.values() if policy.wanted != policy.applied)
        return [wanted for wanted in found if wanted is not None]


T = TypeVar("T")
APPLY_TIMEOUT = 180.0  # seconds for a bundle: its files are imported for the first time
MAX_TOKEN = 4096
# Errors after which the connection, or the token, is useless; the others are about the request.
LOST = frozenset({"draining", "overload", "not_permitted", "not_admin", "hello_required", "method_not_found"})


class DaemonSocket:
    """A daemon that listens in one of some folders, which `folders` returns anew for each attempt.

    The daemon is this user's, root's, or that of the user `daemon_uid`.  The owner calls `close` at the end.  Each
    request may raise DaemonAbsentError, and those that send versions, a bundle or a number DaemonRefusedError.
    """

    def __init__(
        self, folders: Callable[[], Sequence[str]], daemon_uid: int | None = None, *, timeout: float = TIMEOUT
    ) -> None:
        self._timeout = timeout
        self._requesting = trio.Lock()
        self._connection: TrioAdminConnection | None = None

        def identify(folder: str) -> dict[str, object]:
            return {"role": "link", "token": read_token(os.path.join(folder, FLEET_TOKEN), daemon_uid)}

        self._connector = AdminConnector("hooklatch link", folders, daemon_uid, identify=identify)

    def is_connected(self) -> bool:
        """Return whether the connection of the last answer is still open, without a request."""
        return self._connection is not None and self._connection.is_open

    async def report_engine(self, fault: EngineFault | None) -> FollowAnswer:
        """Tell the daemon what is wrong with the engine, or that nothing is, and return its state."""
        return await self._request("fleet_follow", FollowAnswer, engine=msgspec.to_builtins(fault))

    async def follow(
        self, manifests: Sequence[str] | None, timestamp: str | None = None, keys: Sequence[str] = ()
    ) -> FollowAnswer:
        """Send the versions after the daemon's head, and return its state.

        An empty sequence says that the daemon is at the engine's head, and `timestamp` what the engine showed before
        it was asked for them; None only asks for the state.  `keys` are key sets after the daemon's.
        """
        texts = None if manifests is None else list(manifests)
        return await self._request("fleet_follow", FollowAnswer, manifests=texts, timestamp=timestamp, keys=list(keys))

    async def apply(self, version: int, bundle: bytes) -> None:
        """Send the bundle that the daemon wants."""
        text = base64.b64encode(bundle).decode()
        await self._request("fleet_apply", dict[str, Any], timeout=APPLY_TIMEOUT, version=version, bundle=text)

    async def report_shipped(self, seq: int) -> None:
        """Send the number of the entry up to which the engine has the record."""
        await self._request("fleet_shipped", object, seq=seq)

    def close(self) -> None:
        """Close the connection, on which no task may wait for an answer."""
        if self._connection is not None:
            self._connection.close()

    async def _request(self, method: str, shape: type[T], *, timeout: float = 0.0, **params: object) -> T:
        """Send a request, over a new connection if there is none, and return the result."""
        async with self._requesting:
            connection = await self._connect()
            try:
                return await connection.ask(method, shape, timeout=max(timeout, self._timeout), **params)
            except RequestFailedError as error:
                if error.name not in LOST:
                    raise DaemonRefusedError(error.message) from None
                self.close()
                raise DaemonAbsentError(f"the daemon does not serve its link now: {error.message}") from None
            except HooklatchError as error:
                raise DaemonAbsentError(str(error)) from None

    async def _connect(self) -> TrioAdminConnection:
        if self._connection is None or not self._connection.is_open:
            self.close()
            try:
                self._connection = await self._connector.connect(timeout=self._timeout)
            except RequestFailedError as error:
                raise DaemonRefusedError(f"the daemon refuses this link: {error.message}") from None
            except HooklatchError as error:
                raise DaemonAbsentError(f"no daemon takes a link: {error}") from None
        return self._connection


def read_token(path: str, daemon_uid: int | None) -> str:
    """Return the token of the daemon that runs; its file is this user's, or that of `daemon_uid`.

    Raises:
        OSError: there is no file, as [fleet] is not configured there, or it is another user's.
    """
    fd = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_uid not in (os.getuid(), daemon_uid):
            raise PermissionError(errno.EPERM, "it is another user's", path)
        return os.read(fd, MAX_TOKEN).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
