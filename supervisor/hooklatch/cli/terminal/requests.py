"""The connections of commands to the daemon that `--runtime-dir` and `--daemon-uid` name, or the environment.

with connect_administrator(arguments) as link:
    status = link.ask("status")
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager

from hooklatch.client.admin import AdminConnection, connect_first, open_admin
from hooklatch.errors import DaemonUnreachableError
from hooklatch.paths import ADMIN_SOCKET, AGENT_SOCKET, list_candidate_dirs, state_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator

__all__ = ["connect_administrator", "connect_agent_once"]


@contextmanager
def connect_agent_once(arguments: argparse.Namespace) -> Generator[AdminConnection]:
    """Connect to the agents' socket, for a single fire.

    Raises:
        NobodyListensError: there is no daemon.
        DaemonUnreachableError: there is one, and it cannot be reached.
    """
    with closing(connect_socket_named(arguments, AGENT_SOCKET)) as link:
        yield link


@contextmanager
def connect_administrator(arguments: argparse.Namespace) -> Generator[AdminConnection]:
    """Connect to the admin socket and greet.  The errors are those of `connect_agent_once`."""
    with closing(connect_socket_named(arguments, ADMIN_SOCKET)) as link:
        link.greet("hooklatch command")
        yield link


def connect_socket_named(arguments: argparse.Namespace, name: str) -> AdminConnection:
    folders = [os.path.abspath(folder) for folder in list_candidate_dirs(arguments.runtime_dir, os.environ)]
    try:
        return connect_first(folders, name, lambda path: open_admin(path, arguments.daemon_uid))
    except DaemonUnreachableError as error:
        if not error.is_absent:
            raise
        from hooklatch.cli.terminal.last_signs import find_last_signs

        raise find_last_signs(state_dir(os.environ), error.tried, folders) from None
