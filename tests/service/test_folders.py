"""A socket is made over a stale one, and over nothing else that stands in its place."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch.service.folders import StartError, check_place


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


@pytest.mark.parametrize("make", [bound, lambda path: None])
def test_a_stale_socket_or_nothing_may_be_replaced(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "s")

    check_place(str(tmp_path / "s"))


@pytest.mark.parametrize(
    "make",
    [lambda path: path.write_text("precious"), lambda path: path.mkdir(), lambda path: path.symlink_to("/nowhere")],
)
def test_anything_else_is_left_as_it_is(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "s")

    with pytest.raises(StartError, match=r"/s is not a socket and was left as it is; move it away"):
        check_place(str(tmp_path / "s"))
