"""Node cannot ask who listens, so it asks whether somebody else can have put the socket where it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from clients.programs import Program, command_of
from clients.scripts import ScriptedServer
from support.strangers import NOBODY, as_root
from support.survivors import nobody_survives
from support.tables import table

Place = Callable[[Path], None]
CASES: dict[str, tuple[Place, str]] = {
    "a folder of one's own": (lambda folder: folder.chmod(0o755), ""),
    "a folder that everybody may write to": (lambda folder: folder.chmod(0o777), "others may write to"),
    "a folder that a group may write to": (lambda folder: folder.chmod(0o770), "others may write to"),
    "such a folder further up": (lambda folder: folder.parent.chmod(0o757), "others may write to"),
    "a socket that everybody may write to": (
        lambda folder: (folder / "agent.sock").chmod(0o666),
        "others may write to",
    ),
}
AS_ROOT: dict[str, tuple[Place, str]] = {
    "a sticky folder of root": (lambda folder: folder.chmod(0o1777), ""),
    "a sticky folder of another user": (lambda folder: given(folder, 0o1777), "another user owns"),
    "a folder of another user": (lambda folder: given(folder, 0o755), f"{NOBODY}"),
    "such a folder further up": (lambda folder: given(folder.parent, 0o755), "another user owns"),
    "a socket of another user": (lambda folder: given(folder / "agent.sock", 0o600), "another user owns"),
}


def given(path: Path, mode: int) -> None:
    os.chown(path, NOBODY, NOBODY)
    path.chmod(mode)


@pytest.fixture(scope="module")
def node() -> Generator[Program]:
    with nobody_survives(), Program(command_of("typescript")) as running:
        yield running


def reason(node: Program, path: Path) -> str:
    """Return why there is no daemon; nothing if there is one."""
    is_connected = node.do(do="open", path=str(path))["connected"]
    return "" if is_connected else str(node.do(do="fire", event="pre_tool_use", payload={})["reason"])


def check(node: Program, tmp_path: Path, place: Place, expected: str) -> None:
    folder = tmp_path / f"{len(list(tmp_path.iterdir()))}" / "run"
    folder.mkdir(parents=True)
    server = ScriptedServer(folder / "agent.sock", [] if expected else [[{"welcome": {}}]])
    server.listen()
    place(folder)

    said = reason(node, server.path)
    node.do(do="close")
    server.close()

    assert bool(said) == bool(expected)
    assert expected in said


@table("name, place, expected", [(name, *case) for name, case in CASES.items()])
def test_node_believes_a_socket_where_nobody_else_can_put_one(
    node: Program, tmp_path: Path, name: str, place: Place, expected: str
) -> None:
    check(node, tmp_path, place, expected)


@as_root
@table("name, place, expected", [(name, *case) for name, case in AS_ROOT.items()])
def test_node_believes_no_socket_in_the_hands_of_another_user(
    node: Program, tmp_path: Path, name: str, place: Place, expected: str
) -> None:
    check(node, tmp_path, place, expected)


def test_node_looks_at_where_a_link_leads(node: Program, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "agent.sock").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert "it is no socket" in reason(node, tmp_path / "link" / "agent.sock")
    (tmp_path / "real").chmod(0o777)
    (tmp_path / "real" / "agent.sock").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "real" / "agent.sock"))
        listener.listen()
        assert f"others may write to {tmp_path / 'real'}" in reason(node, tmp_path / "link" / "agent.sock")
    node.do(do="close")
