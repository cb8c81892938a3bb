"""Reaching the daemon: what is said where it is not ours."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

from hooklatch.cli.terminal.requests import administrator
from support.strangers import as_nobody, as_root


@as_root
def test_a_socket_of_another_user_is_told_as_such_and_no_daemon_is_to_be_started(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "admin.sock"))
        listener.listen()

        def ask() -> None:
            with administrator(argparse.Namespace(runtime_dir=str(tmp_path))):
                pass

        said = as_nobody(ask)

    assert "Permission denied); it is for another user: become that one, or name the folder of your own daemon" in said
    assert "serve --detach" not in said
