"""The command `dashboard`: pages on loopback, in a process of its own.

It is opt-in: its libraries are imported only when it runs.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from contextlib import suppress
from html import escape
from threading import Thread
from typing import Literal, TypedDict

from hooklatch import paths
from hooklatch.cli.hooks.asks import find_user_name
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, make_missing_error, parse_port
from hooklatch.errors import explain_error

__all__ = ["add_dashboard"]

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")  # without one, a browser would be one of the terminal
OPENING = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}">'


class DashboardReady(TypedDict):
    """`dashboard`: one line, when it accepts connections; the URL is good for one visit."""

    ready: Literal[True]
    url: str


def add_dashboard(parser: Parser) -> None:
    parser.runs(run_dashboard, example="hooklatch dashboard --port 7438", exits=(Exit.UNAVAILABLE,))
    parser.prints("cli.daemon.dashboard:DashboardReady")
    parser.add_argument("--port", metavar="N", type=parse_port, default=0, help="on 127.0.0.1 (default: a free one)")
    parser.add_argument("--no-open", action="store_true", help="print the address, and open no browser")


def run_dashboard(arguments: argparse.Namespace) -> int:
    try:
        import trio

        from hooklatch.dashboard import process
    except ImportError as error:
        raise make_missing_error(error.name or error, "dashboard") from None

    def list_folders() -> list[str]:
        # Looked up for each connection: a daemon that starts later may use a folder that there is not yet.
        return paths.list_candidate_dirs(arguments.runtime_dir, os.environ)

    logging.basicConfig(level=logging.WARNING, format="hooklatch: %(message)s")
    try:
        listener = process.bind_loopback(arguments.port)
    except OSError as error:
        refusal = f"port {arguments.port} cannot be listened on: {error.strerror}; choose another one with --port"
        raise CommandError(Exit.UNAVAILABLE, refusal) from None
    from hooklatch.cli.fleet.status import prepare_fleet_page

    fleet = prepare_fleet_page(arguments.config)
    who, uid = f"{find_user_name()} in the dashboard", arguments.daemon_uid  # as the record names who acts on the pages
    with Announce(arguments) as announce:
        trio.run(process.serve_dashboard, listener, list_folders, who, announce, uid, fleet)
    return Exit.OK


class Announce:
    """A callback that prints the address of the dashboard, and opens a browser there; until the end of a block."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._is_json = arguments.json
        self._opens = not (arguments.no_open or arguments.json) and any(os.environ.get(name) for name in DISPLAYS)
        self._page = ""

    def __enter__(self) -> Announce:
        return self

    def __call__(self, url: str) -> None:
        if self._is_json:
            output.say_json(DashboardReady(ready=True, url=url))
            return
        output.print_line(f"the dashboard is at {url}")
        output.print_line(
            "this address is good for one visit of one browser, and for you alone; Ctrl-C ends the dashboard"
        )
        if self._opens:
            Thread(target=self._open, args=(url,), daemon=True).start()

    def _open(self, url: str) -> None:
        """Open a browser by a file that only this user can read, since every user can read a command line."""
        import subprocess

        from hooklatch_worker.sandbox import children

        try:
            folder = paths.state_dir(os.environ)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            fd, self._page = tempfile.mkstemp(".html", "dashboard-", folder)
            with open(fd, "w") as file:
                file.write(OPENING.format(url=escape(url)))
            words = children.isolated_command(sys.executable, "-m", "webbrowser", f"file://{self._page}")
            null = subprocess.DEVNULL
            children.start_child(
                words,
                children.make_user_environment(os.environ),
                stdin=null,
                stdout=null,
                stderr=null,
                start_new_session=True,  # Ctrl-C ends the dashboard, and is not for the browser
            ).wait()
        except OSError as error:
            output.print_error(f"no browser could be opened ({explain_error(error)}); open the address above")

    def __exit__(self, *_: object) -> None:
        if self._page:  # the file by which the browser was opened
            with suppress(OSError):
                os.remove(self._page)
