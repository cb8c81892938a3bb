"""The opening of an engine by its URL, and its password.

    async with open_engine("rediss://engine.example", "acme", password=read_password("engine.password")) as engine:
        versions = await engine.versions(after=0)

The engine's module is imported when it is opened, so that its library need not be installed to read a configuration.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager

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

__all__ = ["PASSWORD", "open_engine", "read_password"]

SCHEMES = ("redis", "rediss", "redis+unix")
PASSWORD = "HOOKLATCH_FLEET_PASSWORD"
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
