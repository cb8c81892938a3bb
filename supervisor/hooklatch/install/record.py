"""The record of what was installed: one JSON file in the state directory, for `uninstall` and `doctor`.

Knows files and digests; knows no host.  It only makes things exact: without it, `uninstall` still takes out every entry
that it finds, and leaves the folders.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

import msgspec

from hooklatch.entry.starting import ENVIRONMENT, environment_of
from hooklatch.install import files
from hooklatch.paths import state_dir

__all__ = ["Installed", "digest", "environment_path", "forget", "installed", "remember", "remember_environment"]


class Installed(msgspec.Struct, frozen=True):
    """One file that was written to: `digest` is that of its bytes then, `backup` what it was before (None: no file).

    `folders` are those that were made for it, outermost first.
    """

    host: str
    digest: str
    backup: str | None = None
    backup_digest: str = ""
    folders: list[str] = []


class Record(msgspec.Struct):
    files: dict[str, Installed] = {}
    folders: list[str] = []  # made for the record itself


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def path_of(environ: Mapping[str, str]) -> str:
    return os.path.join(state_dir(environ), "installed.json")


def load(path: str) -> tuple[bytes | None, Record]:
    data = files.read(path)
    if data is None:
        return None, Record()
    try:
        return data, msgspec.json.decode(data, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data, Record()  # nobody's loss but exactness


def installed(environ: Mapping[str, str]) -> dict[str, Installed]:
    """Return what was installed, by the path of each file.

    Raises:
        FileError: the record is there and cannot be read.
    """
    return load(path_of(environ))[1].files


def remember(environ: Mapping[str, str], path: str, one: Installed) -> None:
    """Note a file that was written to.

    Raises:
        FileError: the record cannot be written.
    """
    target = path_of(environ)
    made = files.make_folders(target)
    before, record = load(target)
    record.folders = [*record.folders, *made]
    record.files[path] = one
    files.replace(target, before, encoded(record))


def environment_path(environ: Mapping[str, str]) -> str:
    """Return where the variables are that an entry starts a daemon with."""
    return os.path.join(state_dir(environ), ENVIRONMENT)


def remember_environment(environ: Mapping[str, str]) -> None:
    """Note the variables that an entry is to start a daemon with.

    Raises:
        FileError: they cannot be written.
    """
    target = environment_path(environ)
    files.make_folders(target)
    files.replace(target, files.read(target), environment_of(environ))


def forget(environ: Mapping[str, str], path: str) -> None:
    """Remove the note of a file; the last one takes the record along.

    Raises:
        FileError: the record cannot be written.
    """
    target = path_of(environ)
    before, record = load(target)
    if before is None or record.files.pop(path, None) is None:
        return
    if record.files:
        files.replace(target, before, encoded(record))
        return
    files.delete(target, before)
    if (variables := files.read(environment_path(environ))) is not None:
        files.delete(environment_path(environ), variables)
    files.remove_folders(record.folders)


def encoded(record: Record) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
