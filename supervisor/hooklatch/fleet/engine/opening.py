"""The opening of an engine by its URL, and its password.

    async with open_engine("rediss://engine.example", "acme", password=read_password("engine.password")) as engine:
        versions = await engine.versions(after=0)

The engine's module is imported when it is opened, so that its library need not be installed to read a configuration.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, cast

from hooklatch.errors import format_install_command
from hooklatch.fleet.engine.engine import (
    FORMS,
    AddressError,
    Engine,
    EngineRefusedError,
    MissingFileError,
    NotInstalledError,
    read_url,
    redact_url,
)

__all__ = ["PASSWORD", "open_engine", "open_engines", "read_password"]

SCHEMES = ("redis", "rediss", "redis+unix")
PASSWORD = "HOOKLATCH_FLEET_PASSWORD"
OF_POLICY = frozenset({
    "wait", "versions", "newest_version", "commit", "bundle", "put_bundle", "timestamp", "put_timestamp", "key_sets",
    "put_key_set",
})  # fmt: skip
MAX_PASSWORD = 4096  # bytes of its file: a longer one is not a password file


def open_engine(
    url: str, fleet: str, *, password: str | None = None, ca: str | None = None, timeout: float = 5.0
) -> AbstractAsyncContextManager[Engine]:
    """Open a fleet's part of the engine that a URL names; it is connected and checked once the block is entered.

    `ca` is a file with the certificates that may vouch for the engine, in place of those of the system.  `timeout` is
    how many seconds a connection may take, and how long an answer may stay away.

    Raises:
        AddressError: it is not a URL of an engine, or there is no engine of its scheme.
        NotInstalledError: its library is not installed.
    """
    address = read_url(url)
    if address.scheme == "file":
        from hooklatch.fleet.engine.archive import opens_archive

        return opens_archive(address, fleet)
    if address.scheme not in SCHEMES:
        raise AddressError(f"{redact_url(url)!r}: there is no engine {address.scheme!r}; write {FORMS}")
    try:
        from hooklatch.fleet.engine.redis import opens
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "hooklatch":
            raise
        raise NotInstalledError(
            f"the package {error.name} is not installed: {format_install_command('hooklatch[fleet]')}"
        ) from None
    return opens(address, fleet, password=password, ca=ca, timeout=timeout)


class SplitEngine:
    """An engine of versions and what proves them, and another for all else: logs and reports."""

    def __init__(self, policy: Engine, logs: Engine) -> None:
        self._policy = policy
        self._logs = logs

    async def invite(self, *_: object) -> None:
        """Refuse: a token leads to one engine."""
        raise EngineRefusedError("a fleet with log_url has two engines: add the host's user to the users' file of each")

    async def dismiss(self, host: str) -> None:
        """Take a host's user from both."""
        await self._policy.dismiss(host)
        await self._logs.dismiss(host)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy if name in OF_POLICY else self._logs, name)


@asynccontextmanager
async def open_engines(
    url: str,
    log_url: str | None,
    fleet: str,
    *,
    password: str | None = None,
    ca: str | None = None,
    timeout: float = 5.0,
) -> AsyncGenerator[Engine]:
    """Open the engine of a fleet, or both as one where logs and reports are in another; the errors are the same."""
    opens = partial(open_engine, fleet=fleet, password=password, ca=ca, timeout=timeout)
    async with opens(url) as engine, opens(log_url or url) if log_url else nullcontext(engine) as logs:
        yield cast("Engine", SplitEngine(engine, logs)) if log_url else engine


def read_password(file: str | None) -> str | None:
    """Return the engine's password: from a file if one is named, else from the environment, else None.

    Raises:
        MissingFileError: there is no such file.
        EngineRefusedError: the file cannot be read or holds no password.
    """
    if file is None:
        return os.environ.get(PASSWORD) or None
    try:
        with open(file, "rb") as stream:
            password = stream.read(MAX_PASSWORD + 1).decode().strip()
    except FileNotFoundError:
        raise MissingFileError(f"the password file {file!r} does not exist; write it, with mode 600") from None
    except OSError as error:
        raise EngineRefusedError(f"the password file {file!r} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise EngineRefusedError(f"the password file {file!r} holds no password: it is not text in UTF-8") from None
    if not password or len(password) > MAX_PASSWORD or not password.isprintable():
        raise EngineRefusedError(f"the password file {file!r} holds no password: write it there, on one line")
    return password
