"""The projects: directories whose own hooks fire in the sessions that work there, once the operator trusts them.

Knows which directories are trusted and in use, and their files. It builds no source and makes no hook.

    not trusted ──trust──▶ trusted: read ──files differ from the pins──▶ changed: its gates deny
                             ▲                                             │
                             └──────── trust again, or the old content ────┘        untrust: ignored again
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager

import trio

from hooklatch.path_lookup import PathFound, look_up_path
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.loading import trust
from hooklatch.service.loading.see import ProjectFiles, mark_untrusted
from hooklatch.service.registry.places import (
    ResolvedDirectory,
    find_nearest_folders,
    find_similar_folders,
    look_up_directory,
)
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.threads import look_at_path

__all__ = ["ProjectRegistry"]

MAX_SEEN = 100  # start directories of hosts without a connection; the oldest is forgotten
LINGER = 600.0  # seconds that a project stays loaded after a fire of a one-shot client


class ProjectRegistry:
    """The trusted projects, those in use, and the files that are loaded of them."""

    def __init__(self, state: StateFile, sessions: Sessions) -> None:
        self._state = state
        self.trusted: dict[str, trust.Pins] = state.state.trusted
        self._sessions = sessions
        self._last_fires: dict[str, float] = {}
        self._seen: dict[str, ResolvedDirectory] = {}
        self._holds: Counter[str] = Counter()
        self.active: dict[str, ProjectFiles] = {}

    def used(self) -> list[str]:
        """Return the trusted projects of sessions, and those of recent one-shot clients."""
        if not self.trusted:
            return []
        now = trio.current_time()
        self._last_fires = {folder: at for folder, at in self._last_fires.items() if now - at < LINGER}
        used = self.nearest(self._places()) | self._last_fires.keys() | self._holds.keys()
        return sorted(used & self.trusted.keys())

    def _places(self) -> set[ResolvedDirectory]:
        return {place for session in self._sessions for place in (*session.places, *session.places_above)}

    def holds(self, session: AgentSession) -> bool:
        """Return whether a session is in a trusted project, or may be, so that its hooks may change with any file."""
        places = (*session.places, *session.places_above)
        if not self.trusted:
            return False
        return any(place.fault is not None for place in places) or bool(self.nearest(places))

    def ask(self, folder: str) -> None:
        """Keep a project loaded for a while."""
        self._last_fires[folder] = trio.current_time()

    @contextmanager
    def holding(self, folders: Iterable[str]) -> Generator[None]:
        """Keep projects loaded for the duration of the block."""
        held = Counter(folders)
        self._holds += held
        try:
            yield
        finally:
            self._holds -= held

    def nearest(self, places: Iterable[ResolvedDirectory]) -> set[str]:
        """Return the trusted projects of places: for each the nearest one at or above it.

        An untrusted directory never hides a trusted one above it, since an agent can create one.
        """
        return find_nearest_folders(places, self.trusted)

    def alike(self, name: str) -> set[str]:
        """Return the trusted projects that an agent may have begun in, by the letters and digits of its directory."""
        return find_similar_folders(name, self.trusted)

    async def are_settled(self, folders: Iterable[str]) -> bool:
        """Return whether the active versions of these projects are the present ones."""
        for folder in folders:
            if folder not in self.trusted:
                continue
            now = await look_at_path(trust.stamp_tree, trust.project_hooks_folder(folder), is_tree=True)
            if folder not in self.active or not self._is_now(self.active[folder], now):
                return False
        return True

    def verified(self, project: ProjectFiles, now: trust.Stamps | None) -> ProjectFiles:
        """Return a project as it was read, unless its files or pins changed while its sources were loaded."""
        if project.fault is not None or self._is_now(project, now):
            return project
        return mark_untrusted(project, "just now")

    def _is_now(self, project: ProjectFiles, now: trust.Stamps | None) -> bool:
        return self.trusted.get(project.folder) is project.pins and project.stamps == now

    @property
    def faults(self) -> dict[str, str]:
        return {folder: project.fault for folder, project in self.active.items() if project.fault is not None}

    async def warnings(self, places: Iterable[ResolvedDirectory]) -> list[str]:
        """Return the warnings about projects for an agent in these places."""
        places = list(places)
        faults = [place.fault for place in places if place.fault is not None and self.trusted]
        faults_by_folder = self.faults
        changed = [faults_by_folder[folder] for folder in sorted(self.nearest(places)) if folder in faults_by_folder]
        ignored = sorted({path for place in places for path in place.paths[-1:] if path not in self.trusted})
        seen = {path: await look_at_path(look_up_path, trust.project_hooks_folder(path)) for path in ignored}
        return [*faults, *changed, *(describe_untrusted(path) for path, found in seen.items() if is_folder(found))]

    async def all_warnings(self) -> list[str]:
        """Return the warnings for every place that a session works in, or that a host began in."""
        places = {place.named: place for place in self._places()} | self._seen
        return await self.warnings(places[named] for named in sorted(places))

    async def begun(self, folders: Iterable[str | None]) -> list[str]:
        """Return the warnings for an agent that begins in these directories, and keep the places for the status."""
        places = [await look_up_directory(folder) for folder in folders if folder]
        warnings = await self.warnings(places)
        for place in places if warnings else ():
            self._seen.pop(place.named, None)
            self._seen[place.named] = place
        while len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return list(dict.fromkeys(warnings))

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
        below = f"{trust.project_hooks_folder(folder)}/"
        state = self._state.state
        state.manifests = {path: kept for path, kept in state.manifests.items() if not path.startswith(below)}
        state.builds = {path: kept for path, kept in state.builds.items() if not path.startswith(below)}


def is_folder(found: object) -> bool:
    return isinstance(found, PathFound) and found.is_folder


def describe_untrusted(folder: str) -> str:
    return (
        f"{trust.project_hooks_folder(folder)} is not trusted, its hooks are ignored; "
        f"look at them, then: hooklatch trust {shlex.quote(folder)}"
    )
