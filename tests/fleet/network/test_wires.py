"""The wires do what the system tests say of them: a host that is cut reaches nobody, and is reached again once mended.

With a real redis-server at the other end; slow, since a silent wire shows only by the time that passes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.network.server import Server, password_of
from fleet.network.wires import CUTS, ENGINE, Wires, kinds, lay
from support.daemons import nothing_left
from support.redis_server import needs_redis
from support.survivors import nobody_survives

pytestmark = [pytest.mark.slow, needs_redis]
KINDS = kinds()
# Says what becomes of one PING: an answer, an error, or nothing in the time that it is given.
PING = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])) as stream:
        stream.sendall(b"*3\\r\\n$4\\r\\nAUTH\\r\\n$5\\r\\nadmin\\r\\n$%d\\r\\n%s\\r\\n" % (len(sys.argv[4]), sys.argv[4].encode()))
        print("reached" if stream.recv(100).startswith(b"+OK") else "closed")
except TimeoutError:
    print("silent")
except OSError:
    print("refused")
"""  # noqa: E501


@pytest.fixture(params=list(KINDS))
def wires(request: pytest.FixtureRequest) -> Iterator[Wires]:
    if KINDS[request.param]:
        pytest.skip(KINDS[request.param])
    with nobody_survives(), nothing_left(), tempfile.TemporaryDirectory(prefix="hl-") as name:
        server = Server(Path(name), "")
        laid = lay(request.param, ["a", "b"], server.socket)
        try:
            server.configure(laid.listening, laid.prefix(ENGINE))
            server.start()
            yield laid
        finally:
            laid.close()
            server.kill()


def ping(wires: Wires, node: str, patience: float = 5) -> str:
    host, _, port = wires.url(node, "admin").partition("@")[2].partition("/")[0].partition(":")
    command = [*wires.prefix(node), sys.executable, "-c", PING, host, port, str(patience), password_of("admin")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_cut_parts_one_host_and_mending_brings_it_back(wires: Wires) -> None:
    assert [ping(wires, "a"), ping(wires, "b")] == ["reached", "reached"]

    told = {}
    for how in CUTS:
        wires.cut("a", how)
        told[how] = ping(wires, "a", 0.3)
        assert ping(wires, "b") == "reached"
        wires.mend("a")
        assert ping(wires, "a") == "reached", how

    assert told["down"] == "refused"
    assert told["unplugged"] in ("refused", "silent")
    assert told["silent"] == "silent"


def test_a_slow_wire_still_gets_there(wires: Wires) -> None:
    wires.slow("a")
    assert ping(wires, "a") == "reached"

    wires.mend("a")
    assert ping(wires, "a") == "reached"
