"""Reaching the daemon: what is said where it is not ours."""

from __future__ import annotations

import argparse
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from hooklatch.cli.daemon.doctor import suggest_without_daemon
from hooklatch.cli.terminal.requests import connect_administrator, connect_agent_once
from hooklatch.client.admin import AdminConnection
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError
from support.strangers import NOBODY, as_nobody, as_root, folder_for_all, listener_of_another


@as_root
def test_a_socket_of_another_user_is_told_as_such_and_no_daemon_is_to_be_started(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "admin.sock"))
        listener.listen()

        def ask() -> None:
            with connect_administrator(argparse.Namespace(runtime_dir=str(tmp_path), daemon_uid=None)):
                pass

        said = as_nobody(ask)

    assert "Permission denied); it is for another user: become that user, or name the folder of your own daemon" in said
    assert "serve --detach" not in said


@as_root
def test_another_users_daemon_is_told_nothing_by_any_command() -> None:
    with folder_for_all() as folder:
        stranger = argparse.Namespace(runtime_dir=str(folder), daemon_uid=None)
        named = argparse.Namespace(runtime_dir=str(folder), daemon_uid=NOBODY)
        said = b'{"jsonrpc":"2.0","id":1,"result":{"hello":true}}\n'
        with (
            listener_of_another(str(folder / "agent.sock"), says=said) as by_agents,
            listener_of_another(str(folder / "admin.sock"), says=said) as by_administrators,
        ):
            for reach in (connect_agent_once, connect_administrator):
                with pytest.raises(DaemonUnreachableError, match=f"nobody \\({NOBODY}\\)") as refused, reach(stranger):
                    pass
                assert refused.value.is_denied
            told = by_agents() + by_administrators()
            with connect_agent_once(named) as link:
                answer = link.ask("hello")

    assert told == b""
    assert answer == {"hello": True}


def test_a_daemon_that_answers_pings_and_reads_nothing_else_is_given_up(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.sock")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen()
        client.connect(path)
        with listener.accept()[0]:
            pinged = threading.Thread(target=answer_pings, args=[listener])
            pinged.start()
            with pytest.raises(DaemonUnreachableError, match="does not read"):
                AdminConnection(client, path, None, silence=0.05, sending=0.3).ask("fire", payload="a" * 7 * 2**20)
            listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            pinged.join()


def answer_pings(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            with listener.accept()[0] as ping:
                ping.recv(100)
                ping.sendall(b"{}\n")


def test_doctor_does_not_advise_to_stop_the_daemon_of_another_user() -> None:
    denied: list[HooklatchError] = [DaemonUnreachableError.at([("/run/x", PermissionError(13, "Permission denied"))])]
    denied += [RequestFailedError(0, "not_permitted", "user 7 may not connect: this daemon is for user 0")]

    assert {suggest_without_daemon(error) for error in denied} == {
        "become the user whose daemon it is, or name the folder of your own with --runtime-dir"
    }
