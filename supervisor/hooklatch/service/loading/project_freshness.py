"""The check before a fire that the hooks of its projects are up to date.

Knows places, projects and reloads, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from hooklatch.core.fire_params import EnvelopeParams
from hooklatch.core.text import format_duration
from hooklatch.service.dispatch.fires import ExtraProjects
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.reloader import Reloader, of_projects
from hooklatch.service.loading.watch import FileWatch
from hooklatch.service.registry.places import ResolvedDirectory, SessionStarts, dash_path, look_up_directory
from hooklatch.service.registry.sessions import AgentSession

__all__ = ["ProjectFreshness"]


class ProjectFreshness:
    """The projects of a fire, with their hooks brought up to date.

    The watch sees a change too, but up to 2 s later. In that time an agent could write a file and have it run.
    """

    def __init__(
        self,
        projects: ProjectRegistry,
        reloader: Reloader,
        file_watch: FileWatch,
        refresh: Callable[[AgentSession], None],
    ) -> None:
        self.trusted = projects.trusted  # the mapping itself, which each later change is a change of
        self._projects = projects
        self._reloader = reloader
        self._file_watch = file_watch
        self._refresh = refresh
        self._session_starts = SessionStarts()
        self._turn = trio.Lock()

    async def find_current(self, session: AgentSession | None, envelope: EnvelopeParams, limit: float) -> ExtraProjects:
        """Find the projects of a fire, and bring their hooks up to date."""
        projects = self._projects
        places = await self._places(session, envelope)  # always: it notes where a host's session began
        if not projects.trusted:
            return ExtraProjects()
        own = await self._own(session)
        named = projects.nearest(places) | self._alike(envelope)
        is_live = session is not None and not session.has_ended
        for folder in named - own if is_live else named | own:  # a live session keeps its own projects loaded
            projects.ask(folder)
        fault = find_place_fault((*places, *list_known_places(session)))
        with projects.holding(named | own):
            late = await self._load(named | own, limit)
        # The session may have moved during the load. The projects at the fire's start count besides its present ones.
        folders = (named | own) - projects.nearest(list_known_places(session))
        return ExtraProjects(frozenset(folders), fault or find_place_fault(list_known_places(session)) or late)

    async def _load(self, folders: set[str], limit: float) -> str | None:
        """Bring the hooks of projects up to date. Return an explanation if that is not done in time."""
        projects = self._projects
        if await projects.are_settled(folders):
            return None
        with trio.move_on_after(limit):
            async with self._turn:  # a fire that waits here may find that the reload before it has done the work
                if not await projects.are_settled(folders):
                    await self._reloader.reload(of_projects(folders))
            return None
        self._file_watch.hint.set()  # the watch finishes what did not fit into the limit
        return f"the hooks of {', '.join(sorted(folders))} were not loaded within {format_duration(limit)}; try again"

    async def _own(self, session: AgentSession | None) -> set[str]:
        """Return the session's own projects, after looking up again the places that were unknown."""
        if session is None:
            return set()
        if any(place.fault is not None for place in list_known_places(session)):
            await session.look_again()
            self._refresh(session)
        return self._projects.nearest(list_known_places(session))

    async def _places(self, session: AgentSession | None, envelope: EnvelopeParams) -> tuple[ResolvedDirectory, ...]:
        """Return the places that the fire names, and those at which its host session is known to have begun."""
        host_session = envelope.session_id if session is None else None
        known = self._session_starts.get(host_session) if host_session is not None else ()
        if not self._projects.trusted and (host_session is None or known):
            return ()  # nothing to look up: no project is trusted
        places = tuple(
            [await look_up_directory(folder) for folder in (envelope.cwd, envelope.began_in) if folder is not None]
        )
        if host_session is not None:
            self._session_starts.note(host_session, places)
        return (*places, *known)

    def _alike(self, envelope: EnvelopeParams) -> set[str]:
        name, directory = envelope.began_as, envelope.began_in
        if name is None:
            return set()
        folders = self._projects.alike(name)
        if directory is not None and dash_path(directory) == name:  # the host names that directory
            return {folder for folder in folders if dash_path(folder) == name}
        return folders


def find_place_fault(places: Iterable[ResolvedDirectory]) -> str | None:
    fault = next((place.fault for place in places if place.fault is not None), None)
    if fault is None:
        return None
    return f"cannot determine which project's guards apply: {fault}; work in a folder that can be looked up"


def list_known_places(session: AgentSession | None) -> tuple[ResolvedDirectory, ...]:
    return (*session.places, *session.places_above) if session is not None else ()
