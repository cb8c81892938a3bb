"""Before a fire: is what is loaded of a project what is there?  Knows projects and reloads; decides nothing."""

from __future__ import annotations

import trio

from hooklatch.service.files import Files
from hooklatch.service.projects import Projects
from hooklatch.service.sessions import Session

__all__ = ["Settling"]


class Settling:
    """Has what fires be what is there.

    The watch sees a change too, but up to 2 s later: time enough for an agent to write a file and have it run.
    """

    def __init__(self, projects: Projects, files: Files) -> None:
        self._projects = projects
        self._files = files
        self._turn = trio.Lock()

    async def settle(self, session: Session | None, cwd: str | None, limit: float) -> tuple[str | None, str | None]:
        """Give the project of one who has no session, and what is wrong if its hooks are not there in time."""
        projects = self._projects
        if not projects.trusted:
            return None, None
        folder = None
        if session is not None:
            folders = [*session.gate_projects, *([session.project] if session.project is not None else [])]
        else:
            folder = projects.nearest(cwd)
            folders = [folder] if folder is not None else []
            for one in folders:
                projects.ask(one)
        if all(projects.is_settled(one) for one in folders):
            return folder, None
        with trio.move_on_after(limit):
            async with self._turn:  # who waits for a reload that begins anyway needs none of its own
                if not all(projects.is_settled(one) for one in folders):
                    await self._files.reload()
            return folder, None
        self._files.hint.set()  # the watch finishes what we have no time for
        return folder, f"the hooks of {', '.join(folders)} were not loaded within {limit:g} s; try again"
