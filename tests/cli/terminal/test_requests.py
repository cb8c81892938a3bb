"""Reaching the daemon: what is said where it is not ours."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

from hooklatch.cli.daemon.doctor import without
from hooklatch.cli.terminal.requests import administrator
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError
from support.strangers import as_nobody, as_root


@as_root
def test_a_socket_of_another_user_is_told_as_such_and_no_daemon_is_to_be_started(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "admin.sock"))
        listener.listen()

        def ask() -> None:
            with administrator(argparse.Namespace(runtime_dir=str(tmp_path), daemon_uid=None)):
                pass

        said = as_nobody(ask)

    assert "Permission denied); it is for another user: become that one, or name the folder of your own daemon" in said
    assert "serve --detach" not in said


def test_doctor_does_not_advise_to_stop_the_daemon_of_another_user() -> None:
    denied: list[HooklatchError] = [DaemonUnreachableError.at([("/run/x", "Permission denied")], is_denied=True)]
    denied += [RequestFailedError(0, "not_permitted", "user 7 may not connect: this daemon is for user 0")]

    assert {without(error) for error in denied} == {
        "become the user whose daemon it is, or name the folder of your own with --runtime-dir"
    }
