"""The process that real programs run below: in a network namespace with loopback alone, beside the fake model.

Reads one job a line from standard input and answers each with one line.  It is the reaper of all that a program leaves
behind, says their names, and kills them.  Started by `real_hosts.theatre`; knows no host.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from real_hosts.model.conversation import Call
from real_hosts.model.server import Model

PORT = 8484  # nobody else is in this namespace
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # netdevice(7)


def main() -> None:
    """Serve jobs until the end of standard input."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    bring_loopback_up()
    model = Model(PORT)
    print(json.dumps({"port": PORT, "interfaces": interfaces_that_are_up()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(play(model, json.loads(line))), flush=True)


def bring_loopback_up() -> None:
    """Do what `ip link set lo up` does, which not every machine has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = _flags(any_socket, "lo") | _IFF_UP
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


def interfaces_that_are_up() -> list[str]:
    """Return the names of what packets could leave by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return [name for _, name in socket.if_nameindex() if _flags(any_socket, name) & _IFF_UP]


def _flags(any_socket: socket.socket, name: str) -> int:
    request = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sh14x", name.encode(), 0))
    return int(struct.unpack("16sh14x", request)[1])


def play(model: Model, job: dict[str, Any]) -> dict[str, Any]:
    """Run one program to its end; return what it said, what the model was told, and what was left running."""
    model.begin({name: [[Call(**call) for call in turn] for turn in turns] for name, turns in job["plays"].items()})
    out, err = Path(job["folder"], "stdout"), Path(job["folder"], "stderr")
    begun = time.monotonic()
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            job["argv"], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=job["cwd"], env=job["env"],
            start_new_session=True,
        )  # fmt: skip
        code = _ended(process, job["timeout"])
    took = time.monotonic() - begun
    return {
        "exit_code": code,
        "seconds": took,
        "stdout": out.read_text(errors="replace"),
        "stderr": err.read_text(errors="replace"),
        "told": model.told,
        "called": model.called,
        "requests": model.requests,
        "errors": model.errors,
        "left": kill_what_is_left(),
    }


def _ended(process: subprocess.Popen[bytes], timeout: float) -> int | None:
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def kill_what_is_left() -> list[str]:
    """Kill each process below this one, however deep; return their names."""
    names: list[str] = []
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for pid in map(int, children):
            if (stat := Path(f"/proc/{pid}/stat").read_text().rpartition(")"))[2].split()[0] != "Z":
                names.append(stat[0].partition("(")[2])
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return names


if __name__ == "__main__":
    main()
