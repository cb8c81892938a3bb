"""Projects: directories whose own hooks fire in the sessions that work there, once the operator trusts them.

Knows which directories are trusted and in use, and what their files hold; builds no source and makes no hook.

    not trusted ──trust──▶ trusted: read ──files differ from the pins──▶ changed: its gates deny
                             ▲                                             │
                             └──────── trust again, or the old content ────┘        untrust: ignored again
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

import msgspec
import trio

from hooklatch.service.config.configuration import (
    PROJECT_TABLES,
    ConfigError,
    Diagnostic,
    FileConfig,
    SourceEntry,
    place_of,
    read_config,
)
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.settings_files import ENDING, read_settings
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.loading import trust
from hooklatch.service.loading.layer_builder import DeclaredFile, ProjectFiles
from hooklatch.service.registry.places import Place, alike, nearest
from hooklatch.service.registry.sessions import Sessions

__all__ = ["Projects"]

LINGER = 600.0  # seconds that a project stays loaded after a fire of a one-shot client


class Projects:
    """Says which projects are in use, and whether their loaded files are up to date."""

    def __init__(self, state: StateFile, sessions: Sessions) -> None:
        self._state = state
        self._sessions = sessions
        self._asked: dict[str, float] = {}
        self._held: Counter[str] = Counter()
        self._seen: dict[str, trust.Stamps | None] = {}  # stamps of when it was last read
        self._taken: dict[str, trust.Stamps | None] = {}  # stamps of the version that is active
        self.faults: dict[str, str] = {}

    @property
    def trusted(self) -> dict[str, trust.Pins]:
        return self._state.state.trusted

    def used(self) -> list[str]:
        """Return the trusted projects of sessions, and those of recent one-shot clients."""
        if not self.trusted:
            return []
        now = trio.current_time()
        self._asked = {folder: at for folder, at in self._asked.items() if now - at < LINGER}
        return sorted((self.nearest(self._places()) | self._asked.keys() | self._held.keys()) & self.trusted.keys())

    def _places(self) -> set[Place]:
        return {place for session in self._sessions for place in (*session.places, *session.places_above)}

    @property
    def watched(self) -> Iterable[str]:
        """Return every path of the used ones whose change may matter."""
        for folder in self.used():
            yield trust.folder_of(folder)
            yield from trust.stamps(folder) or ()

    def ask(self, folder: str) -> None:
        """Keep a project loaded for a while."""
        self._asked[folder] = trio.current_time()

    @contextmanager
    def holding(self, folders: Iterable[str]) -> Generator[None]:
        """Keep projects loaded while the block runs."""
        held = Counter(folders)
        self._held += held
        try:
            yield
        finally:
            self._held -= held

    def nearest(self, places: Iterable[Place]) -> set[str]:
        """Return the trusted projects of some places: for each the nearest one at or above it.

        An untrusted directory does not hide a trusted one above it, whatever it holds: an agent can create one.
        """
        return nearest(places, self.trusted)

    def alike(self, name: str) -> set[str]:
        """Return the trusted projects that an agent may have begun in, by the letters and digits of its directory."""
        return alike(name, self.trusted)

    def is_settled(self, folder: str) -> bool:
        """Return whether the active version of a project is the present one."""
        return folder not in self.trusted or is_now(self._taken, folder)

    def taken(self) -> None:
        """Record that the version last read is now active."""
        self._taken = dict(self._seen)

    def read(self) -> list[ProjectFiles]:
        """Read all that are in use."""
        before = {folder: seen for folder, seen in self._seen.items() if folder not in self.faults}
        self._seen = {folder: trust.stamps(folder) for folder in self.used()}
        self.faults = {}
        return [
            self._read(folder, is_known=seen is not None and seen == before.get(folder))
            for folder, seen in self._seen.items()
        ]

    def _read(self, folder: str, *, is_known: bool) -> ProjectFiles:
        pins = self.trusted[folder]
        fault = None if is_known else self._fault(folder, pins)
        if fault is not None:
            return self.changed(folder, fault)
        root = trust.folder_of(folder)
        names = [name for name in pins if is_declaring(name)]
        names.sort(key=lambda name: (name != "hooks.toml", name))
        return ProjectFiles(folder, [declared(root, name, pins) for name in names])

    def _fault(self, folder: str, pins: trust.Pins) -> str | None:
        try:
            fault = trust.difference(pins, trust.pin(folder))
        except (UnsafeFileError, OSError) as error:
            return str(error)
        return fault if fault is not None or self._seen[folder] is not None else "it cannot be accessed"

    def changed(self, folder: str, fault: str) -> ProjectFiles:
        """Return the fault of a project whose files are not those that were trusted."""
        self.faults[folder] = (
            f"{trust.folder_of(folder)} has changed since it was trusted ({fault}); "
            f"look at it, then: hooklatch trust {shlex.quote(folder)}"
        )
        return ProjectFiles(folder, fault=self.faults[folder])

    def verified(self, project: ProjectFiles) -> ProjectFiles:
        """Return a project as it was read, unless its files changed while its sources were loaded."""
        if project.fault is not None or is_now(self._seen, project.folder):
            return project
        return self.changed(project.folder, "just now")

    def warnings(self, places: Iterable[Place]) -> list[str]:
        """Return the warnings about projects for whoever works in these places."""
        places = list(places)
        faults = [place.fault for place in places if place.fault is not None and self.trusted]
        changed = [self.faults[folder] for folder in sorted(self.nearest(places)) if folder in self.faults]
        ignored = sorted({path for place in places for path in place.paths[-1:] if path not in self.trusted})
        return [*faults, *changed, *(untrusted(path) for path in ignored if os.path.isdir(trust.folder_of(path)))]

    def all_warnings(self) -> list[str]:
        """Return the warnings for every place that a session works in."""
        return self.warnings(sorted(self._places(), key=lambda place: place.named))

    def trust(self, folder: str, pins: trust.Pins) -> None:
        self._forget(folder)
        self.trusted[folder] = pins
        self.ask(folder)

    def untrust(self, folder: str) -> bool:
        if folder not in self.trusted:
            return False
        self._forget(folder)
        del self.trusted[folder]
        return True

    def _forget(self, folder: str) -> None:
        below = f"{trust.folder_of(folder)}/"
        state = self._state.state
        state.manifests = {path: kept for path, kept in state.manifests.items() if not path.startswith(below)}
        self._seen.pop(folder, None)
        self._taken.pop(folder, None)


def untrusted(folder: str) -> str:
    return (
        f"{trust.folder_of(folder)} is not trusted, its hooks are ignored; "
        f"look at them, then: hooklatch trust {shlex.quote(folder)}"
    )


def is_now(seen: Mapping[str, trust.Stamps | None], folder: str) -> bool:
    return folder in seen and seen[folder] == trust.stamps(folder)


def is_declaring(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return name == "hooks.toml" or (folder == "hooks.d" and file.endswith((".toml", ".py", ENDING)) and file[0] != ".")


def declared(root: str, name: str, pins: trust.Pins) -> DeclaredFile:
    path = os.path.join(root, name)
    if name.endswith(".py"):
        return DeclaredFile(path, FileConfig(path, sources=[SourceEntry("file", path)]))
    try:
        data = read_safely(path)
        if hashlib.sha256(data).hexdigest() != pins[name]:
            return DeclaredFile(path, None, "it changes while it is read")
        config = read_settings(path, data) if name.endswith(ENDING) else read_config(path, data, PROJECT_TABLES)
        config = msgspec.structs.replace(config, digest=pins[name])
        check_places(config, root)
    except ConfigError as error:
        return DeclaredFile(path, None, str(error))
    except (UnsafeFileError, OSError) as error:
        return DeclaredFile(path, None, str(error))
    return DeclaredFile(path, config)


def check_places(config: FileConfig, root: str) -> None:
    """Refuse a file that names Python code outside of the pinned directory."""
    places = [(entry.kind, entry.location, 0) for entry in config.sources]
    for hook in config.hooks:
        source, _ = place_of(hook, os.path.dirname(config.path))
        places.append((source.kind, source.location, hook.line))
    for kind, location, line in places:
        if kind == "file" and not location.startswith(f"{root}/"):
            raise ConfigError(Diagnostic(config.path, line, f"{location} is not below {root}, so it is not pinned"))
