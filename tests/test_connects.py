"""Whoever connects to a daemon asks who listens: in one place for each language, which has no way around it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from support.repository import ROOT

PLACE = "credentials.py"
NAMES = re.compile(r"connect(_ex|_unix)?$|(open|create)_unix_(socket|connection)$|open_tcp_stream$")
WORDS = re.compile(r"connect|unix_|open_tcp_stream")  # one of which is in each of those
NO_CLIENTS = {
    "fleet/engine/redis_connections.py": "the fleet's engine, which is not a daemon",
    "service/folders.py": "whether anybody listens, whoever it is: then this daemon does not start",
    "service/service_manager.py": "the service manager, by datagrams",
}
# Where each client connects, and the words that do it in its language.
OTHERS = {
    "clients/typescript": ("src/peer.js", r"createConnection\(|net\.connect|new Socket\b", "*.*js"),
    "clients/elixir": ("lib/hooklatch/peer.ex", r":gen_tcp\.connect|:socket\.connect|:gen_local", "*.ex"),
    "clients/rust": ("src/peer.rs", r"UnixStream::connect|fn connect\(fd|UnixDatagram", "*.rs"),
    "supervisor/hooklatch/entry": ("entry.c", r"\bconnect\(", "*.c"),
}


def connects(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that may connect a socket: with an address, or of a library's function that makes the socket."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[_, *_]) if NAMES.match(name):
                yield node
            case ast.Call(func=ast.Name(id=name), args=[_]) if NAMES.match(name):
                yield node
            case _:
                pass


def test_python_connects_to_a_daemon_in_one_place() -> None:
    found: dict[str, int] = {}
    for folder in ("supervisor/hooklatch", "workers/hooklatch_worker"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT / folder).as_posix()
            text = path.read_text()
            if WORDS.search(text) and (count := len([*connects(ast.parse(text))])):
                found[name] = count

    assert found == {PLACE: 1, **dict.fromkeys(NO_CLIENTS, 1)}, "connect by connect of hooklatch/credentials.py"
    assert len([*connects(ast.parse("s.connect(path)\ntrio.open_unix_socket(p)\nconnect(stream, path, None)"))]) == 2


@pytest.mark.parametrize("folder", OTHERS)
def test_each_other_client_connects_in_one_place(folder: str) -> None:
    place, words, names = OTHERS[folder]
    found = [
        path.relative_to(ROOT / folder).as_posix()
        for path in sorted((ROOT / folder).rglob(names))
        if not {"node_modules", "_build", "deps", "target"} & set(path.parts)
        for line in path.read_text().splitlines()
        if re.search(words, line) and not line.lstrip().startswith(("import ", "*", "//"))
    ]

    assert found == [place]
