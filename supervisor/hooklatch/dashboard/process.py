"""The dashboard's process: its port, its server, its signals, and the handler of each path."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as serve_http  # pyright: ignore[reportUnknownVariableType]  # bare generics
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from hooklatch import paths
from hooklatch.client.trio_admin import AdminConnector
from hooklatch.core.status_answers import StatusAnswer
from hooklatch.dashboard.actions import Actions, FormError
from hooklatch.dashboard.doors import AccessControl, Keys
from hooklatch.dashboard.pages import LiveStream, PageHandlers
from hooklatch.dashboard.rendering import FOLDER
from hooklatch.dashboard.site import DashboardSite, LooksAtFleet
from hooklatch.files import create_anew

__all__ = ["ADDRESS", "bind_loopback", "serve_dashboard"]

logger = logging.getLogger("hooklatch.dashboard")


def build_application(site: DashboardSite) -> AccessControl:
    """Return the whole application of a site."""
    pages, actions = PageHandlers(site), Actions(site)
    read: dict[str, Any] = {
        "/enter": pages.enter, "/": pages.overview, "/hooks": pages.hooks, "/hook": pages.hook,
        "/counts": pages.counts, "/report": pages.report, "/sessions": pages.sessions, "/revisions": pages.revisions,
        "/record": pages.record, "/decision": pages.decision, "/suspensions": pages.suspensions, "/fleet": pages.fleet,
        "/asks": pages.asks, "/live": LiveStream(site), "/ask": actions.ask_form, "/do/{name}": actions.form,
    }  # fmt: skip
    posted = {"/ask": actions.answer, "/do/{name}": actions.act, "/verify": actions.verify}
    below = [
        *(Route(path, handler, methods=["GET"]) for path, handler in read.items()),
        *(Route(path, handler, methods=["POST"]) for path, handler in posted.items()),
        Mount("/static", StaticFiles(directory=FOLDER / "static")),
    ]

    def show_refusal(request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 500
        return site.wrong(code, "there is no such page" if code == 404 else "the page cannot be asked for like that")

    def refuse_form(request: Request, error: FormError) -> Response:
        return site.wrong(error.status, str(error), place=error.place)

    def show_failure(request: Request, error: Exception) -> Response:
        logger.error("the page %s failed", request.url.path.removeprefix(site.keys.base), exc_info=error)
        return site.wrong(500, "this page failed; the dashboard's standard error has the details: please report it")

    handlers: Mapping[object, object] = {HTTPException: show_refusal, FormError: refuse_form, Exception: show_failure}
    application = Starlette(routes=[Mount(site.keys.base, routes=below)], exception_handlers=handlers)  # type: ignore[arg-type]
    return AccessControl(application, site.keys)


ADDRESS = "127.0.0.1"
GRACE = 1.0  # seconds for answers that are being sent when it ends
MAX_HEAD = 2**14


def bind_loopback(port: int) -> socket.socket:
    """Return a socket on a port of loopback, 0 for any that is free.

    Raises:
        OSError: the port is in use, or needs privileges.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that waits after the last dashboard
        listener.bind((ADDRESS, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


async def serve_dashboard(
    listener: socket.socket,
    folders: Callable[[], Sequence[str]],
    who: str,
    on_ready: Callable[[str], None],
    daemon_uid: int | None,
    look_at_fleet: LooksAtFleet | None = None,
) -> None:
    """Serve on a listening socket, which becomes the server's, until SIGTERM or SIGINT.

    `daemon_uid` is the user whose daemon is used besides this user's and root's. `on_ready` is called with the URL to
    begin with, which is good for one visit.
    """
    daemon = AdminConnector("hooklatch dashboard", folders, daemon_uid)
    site = DashboardSite(daemon, Keys(listener.getsockname()[1]), who, look_at_fleet)
    is_over = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(site.feed.run)
            nursery.start_soon(site.checks.run)
            nursery.start_soon(site.counts.run)
            nursery.start_soon(end_on_signal, received, site, is_over)
            nursery.start_soon(site.begin_counting)
            nursery.start_soon(leave_address, site)
            on_ready(site.keys.url)
            application: Any = build_application(site)  # two packages that name ASGI's types differently
            await serve_http(application, make_server_config(listener), shutdown_trigger=is_over.wait, mode="asgi")
            nursery.cancel_scope.cancel()


async def leave_address(site: DashboardSite) -> None:
    """Have the address beside the daemon's admin socket until cancelled, for the links in notifications of asks.

    The address leads to no page without the cookie.  Its path is a secret, for those alone who reach the socket.
    """
    async with site.asking() as asker:
        status = await asker.ask("status", StatusAnswer)
    if status.value is None:
        return
    path = os.path.join(os.path.dirname(status.value["places"]["admin"]), paths.DASHBOARD)
    with suppress(OSError):  # another user's folder
        fd = create_anew(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, f"{site.keys.origins[0]}{site.keys.base}\n".encode())
            await trio.sleep_forever()
        finally:
            if os.stat(path).st_ino == os.fstat(fd).st_ino:  # not that of a dashboard which began later
                os.unlink(path)
            os.close(fd)


async def end_on_signal(signals: AsyncIterator[int], site: DashboardSite, is_over: trio.Event) -> None:
    """End every open stream, so that the server need not wait for one, and then the server."""
    async for _ in signals:
        site.feed.end()
        is_over.set()
        return


def make_server_config(listener: socket.socket) -> Config:
    """Return the server's configuration, which takes the socket over."""
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.accesslog = None
    config.errorlog = logging.getLogger("hooklatch.dashboard")
    config.include_server_header = False
    config.graceful_timeout = GRACE
    config.h11_max_incomplete_size = MAX_HEAD
    return config
