"""The record of what was installed: one JSON file in the state directory, for `uninstall` and `doctor`.

It only makes things exact: without it, `uninstall` still takes out every entry that it finds, and leaves the folders.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from hooklatch.cli.hosts import settings_files
from hooklatch.entry.starting import ENVIRONMENT, encode_start_environment
from hooklatch.paths import state_dir

__all__ = [
    "AdoptedHandler", "InstalledFile", "digest_bytes", "forget_file", "list_accepted", "list_installed",
    "remember_accepted", "remember_environment", "remember_file", "start_environment_path",
]  # fmt: skip


class AdoptedHandler(msgspec.Struct, frozen=True):
    """A handler of another hook that was taken out of a file, to run in the daemon; `timeout` is in seconds."""

    event: str
    handler: dict[str, Any]
    matcher: str = ""
    is_grouped: bool = True
    digest: str = ""
    timeout: float = 60.0
    folder: str = ""


class InstalledFile(msgspec.Struct, frozen=True):
    """One file that was written: `digest` is of its new bytes, `backup` is the path of its old bytes (None: no file).

    `folders` were made for it, outermost first.
    """

    host: str
    digest: str
    backup: str | None = None
    backup_digest: str = ""
    folders: list[str] = []
    adopted: list[AdoptedHandler] = []


class InstallState(msgspec.Struct):
    files: dict[str, InstalledFile] = {}
    accepted: dict[str, str] = {}  # what the operator accepted, by its digest
    folders: list[str] = []  # made for the record itself


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def install_state_path(environ: Mapping[str, str]) -> str:
    return os.path.join(state_dir(environ), "installed.json")


def load_install_state(path: str) -> tuple[bytes | None, InstallState]:
    data = settings_files.read_if_present(path)
    if data is None:
        return None, InstallState()
    try:
        return data, msgspec.json.decode(data, type=InstallState)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data, InstallState()  # only exactness is lost: `uninstall` works without a record


def list_installed(environ: Mapping[str, str]) -> dict[str, InstalledFile]:
    """Return what was installed, by the path of each file."""
    return load_install_state(install_state_path(environ))[1].files


def remember_file(environ: Mapping[str, str], path: str, file: InstalledFile) -> None:
    """Add a written file to the record."""
    target = install_state_path(environ)
    made = settings_files.make_folders(target)
    before, record = load_install_state(target)
    record.folders = [*record.folders, *made]
    record.files[path] = file
    settings_files.replace_file(target, before, encode_install_state(record))


def list_accepted(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the hooks of others that the operator accepted, by their digests."""
    return load_install_state(install_state_path(environ))[1].accepted


def remember_accepted(environ: Mapping[str, str], accepted: Mapping[str, str]) -> None:
    """Add hooks of others to what the operator accepted."""
    target = install_state_path(environ)
    made = settings_files.make_folders(target)
    before, record = load_install_state(target)
    record.folders = [*record.folders, *made]
    record.accepted |= accepted
    settings_files.replace_file(target, before, encode_install_state(record))


def start_environment_path(environ: Mapping[str, str]) -> str:
    """Return the path of the variables with which a forwarder starts a daemon."""
    return os.path.join(state_dir(environ), ENVIRONMENT)


def remember_environment(environ: Mapping[str, str]) -> None:
    """Write the variables with which a forwarder starts a daemon."""
    target = start_environment_path(environ)
    settings_files.make_folders(target)
    settings_files.replace_file(target, settings_files.read_if_present(target), encode_start_environment(environ))


def forget_file(environ: Mapping[str, str], path: str) -> None:
    """Remove a file from the record; with the last file, the record is deleted."""
    target = install_state_path(environ)
    before, record = load_install_state(target)
    if before is None or record.files.pop(path, None) is None:
        return
    if record.files:
        settings_files.replace_file(target, before, encode_install_state(record))
        return
    settings_files.delete_file(target, before)
    if (variables := settings_files.read_if_present(start_environment_path(environ))) is not None:
        settings_files.delete_file(start_environment_path(environ), variables)
    settings_files.remove_folders(record.folders)


def encode_install_state(record: InstallState) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
