"""Before a fire: which projects it is in, and whether their loaded hooks are up to date.

Knows places, projects and reloads; decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from hooklatch.core.fire_params import EnvelopeParams
from hooklatch.core.text import format_duration
from hooklatch.service.dispatch.fires import ExtraProjects
from hooklatch.service.loading.files import Reloader
from hooklatch.service.loading.watch import FileWatch
from hooklatch.service.reading.projects import ProjectRegistry
from hooklatch.service.registry.places import ResolvedDirectory, dash_path, look_up_directory
from hooklatch.service.registry.session_starts import SessionStarts
from hooklatch.service.registry.sessions import AgentSession

__all__ = ["ProjectFreshness"]


NOWHERE = ExtraProjects()


class ProjectFreshness:
    """Keeps the hooks of a fire's projects up to date.

    The watch sees a change too, but up to 2 s later: time enough for an agent to write a file and have it run.
    """

    def __init__(
        self,
        projects: ProjectRegistry,
        files: Reloader,
        file_watch: FileWatch,
        take_settings: Callable[[AgentSession], None],
    ) -> None:
        self._projects = projects
        self._files = files
        self._file_watch = file_watch
        self._take_settings = take_settings
        self._session_starts = SessionStarts()
        self._turn = trio.Lock()

    def settled(self, session: AgentSession | None, envelope: EnvelopeParams) -> ExtraProjects | None:
        """Return at once which projects a fire is in, if no project is trusted and there is nothing to look up."""
        if session is None and envelope.session_id is not None:
            return None
        return None if self._projects.trusted else NOWHERE

    async def settle(self, session: AgentSession | None, envelope: EnvelopeParams, limit: float) -> ExtraProjects:
        """Find the projects that a fire is in, and bring their hooks up to date."""
        projects = self._projects
        places = await self._places(session, envelope)
        if not projects.trusted:
            return ExtraProjects()
        own = await self._own(session)
        named = projects.nearest(places) | self._alike(envelope)
        is_live = session is not None and not session.has_ended
        for one in named - own if is_live else named | own:
            projects.ask(one)
        fault = find_place_fault((*places, *list_known_places(session)))
        with projects.holding(named | own):
            late = await self._load(named | own, limit)
        # The session may have moved meanwhile: the projects of the fire's start count besides those of its view now.
        folders = (named | own) - projects.nearest(list_known_places(session))
        return ExtraProjects(frozenset(folders), fault or find_place_fault(list_known_places(session)) or late)

    async def _load(self, folders: set[str], limit: float) -> str | None:
        """Bring the hooks of projects up to date; return what is wrong if that is not done in time."""
        projects = self._projects
        if await projects.are_settled(folders):
            return None
        with trio.move_on_after(limit):
            async with self._turn:  # a fire that waits here may find that the reload before it has done the work
                if not await projects.are_settled(folders):
                    await self._files.reload()
            return None
        self._file_watch.hint.set()  # the watch finishes what did not fit into the limit
        return f"the hooks of {', '.join(sorted(folders))} were not loaded within {format_duration(limit)}; try again"

    async def _own(self, session: AgentSession | None) -> set[str]:
        """Return the projects of the session's view, after looking up again the places that were unknown."""
        if session is None:
            return set()
        if any(place.fault is not None for place in list_known_places(session)):
            await session.look_again()
            self._take_settings(session)
        return self._projects.nearest(list_known_places(session))

    async def _places(self, session: AgentSession | None, envelope: EnvelopeParams) -> tuple[ResolvedDirectory, ...]:
        """Return where the fire itself says that its agent is, and where it began or is known to have begun."""
        host_session = envelope.session_id if session is None else None
        known = self._session_starts.get(host_session) if host_session is not None else ()
        if not self._projects.trusted and (host_session is None or known):
            return ()  # nothing to look up: no project is trusted
        said = tuple(
            [await look_up_directory(folder) for folder in (envelope.cwd, envelope.began_in) if folder is not None]
        )
        if host_session is not None:
            self._session_starts.note(host_session, said)
        return (*said, *known)

    def _alike(self, envelope: EnvelopeParams) -> set[str]:
        name, told = envelope.began_as, envelope.began_in
        if name is None:
            return set()
        found = self._projects.alike(name)
        if told is not None and dash_path(told) == name:  # the host gives the directory that the name stands for
            return {folder for folder in found if dash_path(folder) == name}
        return found


def find_place_fault(places: Iterable[ResolvedDirectory]) -> str | None:
    fault = next((place.fault for place in places if place.fault is not None), None)
    if fault is None:
        return None
    return f"cannot determine which project's guards apply: {fault}; work in a folder that can be looked up"


def list_known_places(session: AgentSession | None) -> tuple[ResolvedDirectory, ...]:
    return (*session.places, *session.places_above) if session is not None else ()
