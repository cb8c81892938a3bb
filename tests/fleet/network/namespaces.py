"""Wires of the kernel's own: a network namespace for each node, a virtual cable to a switch in one more.

Nothing of it is in the network of the machine: the switch is in a namespace too, so addresses cannot clash with it, and
removing the namespaces removes everything.  Knows `ip`, `tc` and `nsenter` of Debian's iproute2 and util-linux.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from chaos.arena import wait_until
from fleet.network.wires import ENGINE

__all__ = ["Namespaces", "missing"]

NETWORK = "10.99.0"
PORT = 6379
SLOW = ("tbf", "rate", "64kbit", "burst", "4kb", "latency", "400ms")


def missing() -> str:
    """Return why there can be no namespaces here, empty if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if absent := [name for name in ("ip", "tc", "nsenter") if shutil.which(name) is None]:
        return f"not installed: {', '.join(absent)} (Debian: iproute2, util-linux)"
    trial = f"hl{os.getpid()}-trial"
    try:
        run("ip", "netns", "add", trial)
        run("ip", "-n", trial, "link", "add", "name", "br0", "type", "bridge")
        run("ip", "-n", trial, "link", "add", "name", "veth0", "type", "veth", "peer", "name", "veth1")
    except RuntimeError as error:
        return f"this kernel, or this container, allows no network namespaces: {error}"
    finally:
        subprocess.run(["ip", "netns", "del", trial], capture_output=True, check=False)
    return ""


class Namespaces:
    """See `Wires`; every name of it begins with `word`."""

    kind = "namespaces"

    def __init__(self, word: str, nodes: list[str]) -> None:
        self.listening = {"port": str(PORT), "bind": f"{NETWORK}.1"}
        self._word = word
        self._hub = f"{word}-hub"
        self._spaces: list[str] = []
        try:
            self._add(self._hub)
            self._ip(self._hub, "link", "add", "name", "br0", "type", "bridge")
            self._ip(self._hub, "link", "set", "br0", "up")
            for number, node in enumerate([ENGINE, *nodes], start=1):
                self._plug(node, f"{NETWORK}.{number}/24")
        except BaseException:
            self.close()
            raise

    def prefix(self, node: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self._word}-{node}", "--"]

    def url(self, node: str, user: str) -> str:
        return f"redis://{user}@{NETWORK}.1:{PORT}/0"

    def cut(self, node: str, how: str) -> None:
        match how:
            case "down":
                self._ip(f"{self._word}-{node}", "link", "set", "eth0", "down")
            case "unplugged":
                self._ip(self._hub, "link", "set", f"to-{node}", "down")
            case "silent":  # no port of the switch any more: both ends are up, and nothing arrives
                self._ip(self._hub, "link", "set", f"to-{node}", "nomaster")

    def slow(self, node: str) -> None:
        self._tc(node, "add", *SLOW)

    def mend(self, node: str) -> None:
        self._ip(self._hub, "link", "set", f"to-{node}", "master", "br0")
        self._ip(self._hub, "link", "set", f"to-{node}", "up")
        self._ip(f"{self._word}-{node}", "link", "set", "eth0", "up")
        if "tbf" in self._tc(node, "show"):
            self._tc(node, "del")
        if not wait_until(lambda: self._carries(node)):
            raise RuntimeError(f"the cable of {node} carries nothing though both ends are up")

    def _carries(self, node: str) -> bool:
        """Return whether both ends have noticed that they are up, which the kernel takes up to a second for."""
        near = run("ip", "-n", f"{self._word}-{node}", "link", "show", "eth0")
        far = run("ip", "-n", self._hub, "-d", "link", "show", f"to-{node}")
        return " state UP " in near and " state UP " in far and "state forwarding" in far

    def close(self) -> None:
        while self._spaces:
            run("ip", "netns", "del", self._spaces.pop())

    def _plug(self, node: str, address: str) -> None:
        space = f"{self._word}-{node}"
        self._add(space)
        self._ip(self._hub, "link", "add", "name", f"to-{node}", "type", "veth", "peer", "name", "eth0", "netns", space)
        self._ip(self._hub, "link", "set", f"to-{node}", "master", "br0")
        self._ip(self._hub, "link", "set", f"to-{node}", "up")
        self._ip(space, "addr", "add", address, "dev", "eth0")
        self._ip(space, "link", "set", "lo", "up")
        self._ip(space, "link", "set", "eth0", "up")
        # A silent cut is over when the kernel asks again where its neighbour is: by itself only once a second.
        asking = "echo 50 >/proc/sys/net/ipv4/neigh/eth0/retrans_time_ms"
        subprocess.run([*self.prefix(node), "sh", "-c", asking], capture_output=True, check=False)

    def _add(self, space: str) -> None:
        run("ip", "netns", "add", space)
        self._spaces.append(space)

    def _ip(self, space: str, *words: str) -> None:
        run("ip", "-n", space, *words)

    def _tc(self, node: str, verb: str, *words: str) -> str:
        root = () if verb == "show" else ("root",)
        return run("tc", "-n", f"{self._word}-{node}", "qdisc", verb, "dev", "eth0", *root, *words)


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
