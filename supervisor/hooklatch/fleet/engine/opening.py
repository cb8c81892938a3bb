"""The opening of an engine by its URL, which never has a password in it: URLs are shown.

`redis://[user@]host[:port][/db]`, `rediss://` the same through TLS, `redis+unix://[user@]/path/of/socket`.

    async with open_engine("rediss://engine.example", "acme", password=read_password("engine.password")) as engine:
        versions = await engine.versions(after=0)

The engine's module is imported when it is opened, so that its library need not be installed to read a configuration.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from urllib.parse import quote, unquote, urlsplit

import msgspec

from hooklatch.errors import format_install_command
from hooklatch.fleet.engine.engine import AddressError, Engine, EngineRefusedError, MissingFileError, NotInstalledError

__all__ = ["FORMS", "Address", "read_url", "redact_url", "add_user", "PASSWORD", "open_engine", "read_password"]

FORMS = "redis://[USER@]HOST[:PORT][/DB], rediss:// for TLS, or redis+unix:///PATH"
WITHOUT_PASSWORD = "put it into a file and name that as password_file, or into the variable HOOKLATCH_FLEET_PASSWORD"


class Address(msgspec.Struct, frozen=True):
    """The address of an engine: `host` and `port`, or the `path` of a Unix socket; `number` is that of the database."""

    scheme: str
    user: str | None = None
    host: str = ""
    port: int | None = None
    path: str = ""
    number: int = 0

    def __str__(self) -> str:
        user = f"{quote(self.user)}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        number = f"/{self.number}" if self.number else ""
        return f"{self.scheme}://{user}{host}{port}{quote(self.path)}{number}"


def read_url(url: str) -> Address:
    """Read an engine's URL of any scheme; `open_engine` knows the schemes that there are.

    Raises:
        AddressError: it is not a URL of an engine, or a password is in it.
    """
    try:
        parts = urlsplit(url)
        host, port, password = parts.hostname or "", parts.port, parts.password
    except ValueError:  # its own text is not shown, since it quotes what may be a password
        raise AddressError(
            f"{redact_url(url)!r} is not a URL of an engine: its host or its port is wrong; write {FORMS}"
        ) from None
    if password is not None or parts.netloc.count("@") > 1:
        raise AddressError(f"the URL {redact_url(url)!r} has a password in it: take it out, and {WITHOUT_PASSWORD}")
    if not url.isprintable() or " " in url or parts.query or parts.fragment:
        raise AddressError(f"{redact_url(url)!r} is not a URL of an engine: it has a space, '?' or '#'; write {FORMS}")
    if not parts.scheme or "://" not in url:
        raise AddressError(f"{redact_url(url)!r} is not a URL of an engine: it has no scheme; write {FORMS}")
    user = unquote(parts.username) if parts.username else None
    if parts.scheme.endswith("+unix"):
        if host or port is not None or len(parts.path) < 2:
            raise AddressError(f"{redact_url(url)!r} names no socket: write {parts.scheme}:///PATH, with three slashes")
        return Address(parts.scheme, user, path=unquote(parts.path))
    if not host:
        raise AddressError(f"{redact_url(url)!r} names no host: write {FORMS}")
    number = parts.path.removeprefix("/")
    if not (number.isascii() and number.isdecimal() and len(number) < 6) and number:
        raise AddressError(f"{redact_url(url)!r}: {number!r} is not the number of a database; write {FORMS}")
    return Address(parts.scheme, user, host, port, number=int(number or 0))


def add_user(url: str, user: str | None) -> str:
    """Return a URL with a user in it, unless it names one itself.

    Raises:
        AddressError: it is not a URL of an engine.
    """
    address = read_url(url)
    return url if user is None or address.user is not None else str(msgspec.structs.replace(address, user=user))


def redact_url(url: str) -> str:
    """Return a URL as it may be shown: without the part before its last '@', which may hold a password."""
    before, at, after = url.rpartition("@")
    scheme, slashes, _ = before.partition("://")
    return f"{scheme}{slashes}…@{after}" if at and slashes else f"…@{after}" if at else url


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
