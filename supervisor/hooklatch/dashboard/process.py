"""The dashboard's process: its port, its server, its signals.  Does not know pages."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as serve_http  # pyright: ignore[reportUnknownVariableType]  # bare generics

from hooklatch.client.trio_admin import AdminConnector
from hooklatch.dashboard.application import build_application
from hooklatch.dashboard.keys import Keys
from hooklatch.dashboard.site import DashboardSite

__all__ = ["ADDRESS", "bind_loopback", "serve_dashboard"]

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
) -> None:
    """Serve on a listening socket, which becomes the server's, until SIGTERM or SIGINT.

    `daemon_uid` is the user whose daemon is used besides this user's and root's. `on_ready` is called with the URL to
    begin with, which is good for one visit.
    """
    daemon = AdminConnector("hooklatch dashboard", folders, daemon_uid)
    site = DashboardSite(daemon, Keys(listener.getsockname()[1]), who)
    is_over = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(site.feed.run)
            nursery.start_soon(site.checks.run)
            nursery.start_soon(end_on_signal, received, site, is_over)
            on_ready(site.keys.url)
            application: Any = build_application(site)  # two packages that name ASGI's types differently
            await serve_http(application, make_server_config(listener), shutdown_trigger=is_over.wait, mode="asgi")
            nursery.cancel_scope.cancel()


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
