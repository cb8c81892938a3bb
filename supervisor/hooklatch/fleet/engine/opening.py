"""The opening of an engine by its URL.

    async with open_engine("rediss://engine.example", "acme", password=read_password("engine.password")) as engine:
        versions = await engine.versions(after=0)

A second engine is a module with a function of the shape `EngineModule`, and a row in `MODULES`.  A module is imported
when an engine of its scheme is opened, so that its library need not be installed for any other.
"""

from __future__ import annotations

import importlib
import os
from contextlib import AbstractAsyncContextManager
from typing import Protocol, cast

from hooklatch.errors import format_install_command
from hooklatch.fleet.engine.addresses import FORMS, Address, read_url, redact_url
from hooklatch.fleet.engine.engine import AddressError, Engine, EngineRefusedError, MissingFileError, NotInstalledError

__all__ = ["PASSWORD", "open_engine", "read_password"]

MODULES = {
    "redis": "hooklatch.fleet.engine.redis",
    "rediss": "hooklatch.fleet.engine.redis",
    "redis+unix": "hooklatch.fleet.engine.redis",
}
PASSWORD = "HOOKLATCH_FLEET_PASSWORD"
MAX_PASSWORD = 4096  # bytes of its file: a longer one is not a password file


class EngineModule(Protocol):
    """The function that each module of an engine has under the name `opens`."""

    def __call__(
        self, address: Address, fleet: str, *, password: str | None, ca: str | None, timeout: float
    ) -> AbstractAsyncContextManager[Engine]: ...


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
    module = MODULES.get(address.scheme)
    if module is None:
        raise AddressError(f"{redact_url(url)!r}: there is no engine {address.scheme!r}; write {FORMS}")
    try:
        opens = cast("EngineModule", importlib.import_module(module).opens)
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
