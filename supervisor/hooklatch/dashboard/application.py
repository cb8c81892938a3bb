"""The routes: the handler of each path, behind the access control, which every request passes."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from hooklatch.dashboard.actions import Actions
from hooklatch.dashboard.doors import AccessControl
from hooklatch.dashboard.live import LiveStream
from hooklatch.dashboard.pages import PageHandlers
from hooklatch.dashboard.rendering import FOLDER
from hooklatch.dashboard.site import DashboardSite

__all__ = ["build_application"]

logger = logging.getLogger("hooklatch.dashboard")


def build_application(site: DashboardSite) -> AccessControl:
    """Return the whole application of a site."""
    pages, actions = PageHandlers(site), Actions(site)
    below = [
        Route("/enter", pages.enter, methods=["GET"]),
        Route("/", pages.overview, methods=["GET"]),
        Route("/hooks", pages.hooks, methods=["GET"]),
        Route("/hook", pages.hook, methods=["GET"]),
        Route("/sessions", pages.sessions, methods=["GET"]),
        Route("/revisions", pages.revisions, methods=["GET"]),
        Route("/record", pages.record, methods=["GET"]),
        Route("/decision", pages.decision, methods=["GET"]),
        Route("/suspensions", pages.suspensions, methods=["GET"]),
        Route("/asks", pages.asks, methods=["GET"]),
        Route("/live", LiveStream(site), methods=["GET"]),
        Route("/ask", actions.ask_form, methods=["GET"]),
        Route("/ask", actions.answer, methods=["POST"]),
        Route("/do/{name}", actions.form, methods=["GET"]),
        Route("/do/{name}", actions.act, methods=["POST"]),
        Route("/verify", actions.verify, methods=["POST"]),
        Mount("/static", StaticFiles(directory=FOLDER / "static")),
    ]

    def show_refusal(request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 500
        return site.wrong(code, "there is no such page" if code == 404 else "the page cannot be asked for like that")

    def show_failure(request: Request, error: Exception) -> Response:
        logger.error("the page %s failed", request.url.path.removeprefix(site.keys.base), exc_info=error)
        return site.wrong(500, "this page failed; the dashboard's standard error has the details: please report it")

    handlers: Mapping[object, object] = {HTTPException: show_refusal, Exception: show_failure}
    application = Starlette(routes=[Mount(site.keys.base, routes=below)], exception_handlers=handlers)  # type: ignore[arg-type]
    return AccessControl(application, site.keys)
