"""The product of sources in git: the files that stand for a `[[source]]` with `git`, and the lock that names them.

    git-sources/NAME-DIGEST/            beside hooks.toml; the digest is of the address, or the path, and the signers
        shared-guards.lock              the one commit that counts, with the digest of each file
        COMMIT/                         its guards, and their cases as in hooks.d

`hooklatch sources update` alone fetches and writes them: this module runs no git, and knows no network.  A commit
counts from the moment at which the lock names it, so its guards become active together.  A guard whose file has not
its digest is not loaded.  While the lock names another revision than the table, the last one stays, and is reported.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple

import msgspec

from hooklatch.disks import limit_look
from hooklatch.errors import explain_error
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.path_lookup import is_passing
from hooklatch.service.config.configuration import Diagnostic, FileConfig, GitSources, SourceCopy, SourceTable

__all__ = [
    "CASES", "GIT", "GUARD_NAME", "LOCK", "FoundCopy", "GuardFiles", "GuardLock", "LockedGuard", "find_copies",
    "find_copy", "guard_paths", "is_copied",
]  # fmt: skip

CASES = "policy-tests"  # in hooks.d, where folders are not read for hooks; `hooklatch fleet push` looks there too
FOLDER, LOCK = "git-sources", "shared-guards.lock"
GUARD_NAME = r"[a-z][a-z0-9_]{0,63}"
UPDATE = "hooklatch sources update"

list_folder = limit_look(os.listdir)
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class GuardFiles(NamedTuple):
    """Something of both files of a guard: their paths, their content or their digests; the cases come first.

    So they are written: a guard is live as soon as it is there.
    """

    cases: str
    guard: str


class LockedGuard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One guard as it was taken: its source, the revision that was asked for, the commit that this was, and the day."""

    source: str
    rev: str
    commit: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}\Z")]
    date: str
    guard_sha256: Digest
    cases_sha256: Digest

    @property
    def digests(self) -> GuardFiles:
        return GuardFiles(self.cases_sha256, self.guard_sha256)

    @property
    def origin(self) -> str:
        return f"{self.source}@{self.rev} (commit {self.commit[:12]})"

    def describe_return(self, name: str) -> str:
        """Return what to do about a guard of this name whose files are not there."""
        return (
            f"to have it again: hooklatch guards add {self.source}@{self.rev} --only {name}; "
            f"to go without it: hooklatch guards forget {name}"
        )


class GuardLock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All shared guards by their names."""

    version: Literal[1]
    guards: dict[Annotated[str, msgspec.Meta(pattern=rf"^{GUARD_NAME}\Z")], LockedGuard]


def guard_paths(folder: str, name: str) -> GuardFiles:
    """Return the paths of a guard in a folder of guards."""
    return GuardFiles(os.path.join(folder, CASES, f"{name}.jsonl"), os.path.join(folder, f"{name}.py"))


def is_copied(path: str) -> bool:
    """Return whether a guard is one of a copy, which is not loaded any more once it is changed."""
    return path.split(os.sep)[-4:-3] == [FOLDER]


class FoundCopy(NamedTuple):
    """The copy for a table, and what its lock says of any of its guards; None if it has no guard to be loaded."""

    copy: SourceCopy
    locked: LockedGuard | None


def find_copies(config: FileConfig) -> FileConfig:
    """Return a file's declarations with the guards of copies in place of the tables that name a repository."""
    copies = [find_copy(table, config.path).copy for table in config.sources if table.git is not None]
    sources = [table for table in config.sources if table.git is None] + [
        SourceTable(path, workers=copy.table.workers, isolation=copy.table.isolation, python=copy.table.python)
        for copy in copies
        for path in copy.pins or [copy.root]
    ]
    diagnostics = [*config.diagnostics, *(copy.fault for copy in copies if copy.pins and copy.fault is not None)]
    return msgspec.structs.replace(config, sources=sources, copies=copies, diagnostics=diagnostics)


def find_copy(table: SourceTable, config: str) -> FoundCopy:
    """Return the copy for a table with `git` of a file of hooks, by what is on the disk.

    Raises:
        OSError: that cannot be told just now.
    """
    git, folder = table.git or "", os.path.dirname(config)
    beside = os.path.dirname(folder) if os.path.basename(folder) == "hooks.d" else folder
    name = re.sub(r"[^A-Za-z0-9]+", "-", git)[-40:].strip("-")  # for people who look into the folder
    location = "" if ":" in git else os.path.normpath(os.path.join(folder, git))  # of a path, two files may mean two
    key = sha256(msgspec.json.encode([git, location, sorted(table.signers)])).hexdigest()[:16]
    root = os.path.join(beside, FOLDER, f"{name}-{key}")
    locked, pins = None, dict[str, str]()
    try:
        guards = msgspec.json.decode(read_safely(os.path.join(root, LOCK)), type=GuardLock).guards
        locked = next(iter(guards.values()), None)
        place = os.path.join(root, locked.commit) if locked is not None else root
        held = {name for name in list_folder(place) if name.endswith(".py")}
        taken = {(each.source, each.commit) for each in guards.values()}
        # A guard that the lock does not name would be left out in silence.
        if locked is None or taken != {(git, locked.commit)} or held != {f"{name}.py" for name in guards}:
            locked, fault = None, "its copy is not one commit of it and all of that; to write it anew"
        else:
            pins = {guard_paths(place, name).guard: each.guard_sha256 for name, each in sorted(guards.items())}
            fault = f"{locked.rev} stays active, since {table.rev} is not here; to fetch it"
    except FileNotFoundError:
        locked, fault = None, f"{table.rev} is not here; to fetch it"
    except (OSError, UnsafeFileError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        if is_passing(error):
            raise  # so the last good version of the file stays active, and it is read again
        locked, fault = None, f"its copy cannot be read ({explain_error(error)}); to write it anew"
    if locked is not None and locked.rev == table.rev:
        return FoundCopy(SourceCopy(table, root, pins), locked)
    diagnostic = Diagnostic(config, 0, f"[[source]] {git}: {fault}: {UPDATE}", is_red=not pins)
    return FoundCopy(SourceCopy(table, root, pins, diagnostic), locked)


GIT = GitSources(find_copies)
