"""A fleet to do things to: wires, a real engine, three hosts and a publisher, and somebody who watches all of it.

Knows processes and files; chooses nothing and judges nothing, but waits until every host has what was pushed, and says
how long that took and what was left behind.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from chaos.arena import wait_until
from fleet.network.server import Server, password_of
from fleet.network.wires import ENGINE, lay
from fleet.system.history import (
    Committed,
    Declined,
    Healed,
    Line,
    Pen,
    Shipped,
    now,
    read,
)
from fleet.system.hosts import Host
from fleet.system.publisher import Publisher
from fleet.system.watching import State, Watcher, records, state_of
from hooklatch.fleet.manifests import Bundle
from hooklatch.fleet.reports import HostReport, read_report
from support.repository import ROOT

__all__ = ["FLEET", "Arena"]

FLEET = "acme"
NAMES = ("anna", "bert", "cleo")
PATIENCE = 20.0  # seconds until every host has what it should have
PAUSE = 0.1  # seconds between two looks: each is work for a daemon, which has it to do beside what is waited for
DISK = "64m"  # of the engine's own disk
ALWAYS = "[record]\nsegment_mib = 0.25\nlow_mib = 0.003\ncritical_mib = 0.002\nfull_mib = 0.001\n"
TABLE = """{always}
[fleet]
name = "{fleet}"
url = "{url}"
password_file = "password"
host = "{host}"
keys = ["{key}"]
reconnect = "200ms"
"""


def users(hosts: Iterable[str]) -> str:
    """Return the engine's users as examples/fleet has them: each role with the least rights."""
    lines = []
    for line in (ROOT / "examples" / "fleet" / "users.acl").read_text().splitlines():
        for host in hosts if "HOST" in line else [""]:
            mine = line.replace("HOST", host).replace("FLEET", FLEET)
            password = password_of(mine.split()[1])
            lines.append(mine.replace("SHA256-OF-ITS-PASSWORD", hashlib.sha256(password.encode()).hexdigest()))
    return "".join(f"{line}\n" for line in lines)


class Arena:
    """One fleet in a folder of its own; `close` ends all that runs, whatever state it is in."""

    def __init__(self, kind: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hl-"))  # not tmp_path: a socket's path may have 107 bytes
        self.log = (self.folder / "log").open("ab")
        self.histories = self.folder / "histories"
        self.histories.mkdir()
        self.disk = self.folder / "engine"
        self.disk.mkdir()
        self.has_own_disk = mounted(self.disk)
        self.hosts: list[Host] = []
        self._pen = Pen(self.histories / "harness.jsonl")
        self._numbers = 0
        self._watchers: list[Watcher] = []
        try:
            self.server = Server(self.disk, users(NAMES))
            self.wires = lay(kind, list(NAMES), self.server.socket)
            self.server.configure(self.wires.listening, self.wires.prefix(ENGINE))
            self.server.start()
            self.publisher = Publisher(self.folder / "publisher", self.wires, FLEET, self._pen)
            self.hosts = [self._host(name) for name in NAMES]
        except BaseException:
            self.close()
            raise

    # -- its beginning and its end ---------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Push a first version, have it in force on every host, and begin to fire and to watch."""
        self.push()
        for host in self.hosts:
            host.start_daemon()
            host.start_link()
        self.heal()
        self._watchers = [Watcher(host, self.histories / f"{host.name}-status.jsonl") for host in self.hosts]
        for host in self.hosts:
            host.start_agents(self.histories / f"{host.name}.jsonl")
        self.await_gates(self.hosts, 3)

    def settle(self) -> list[str]:
        """End the agents, wait until every record is shipped, write down all records, and end the hosts well."""
        for host in self.hosts:
            host.dismiss_agents()
        for watcher in self._watchers:
            watcher.close()
        self._watchers = []
        wait_until(lambda: all(self._is_shipped(host) for host in self.hosts), PATIENCE, pause=PAUSE)
        for host in self.hosts:
            for line in records(host):
                self.write(line)
        for record in self.publisher.records():
            self.write(Shipped(record["fleet_host"], record["fleet_epoch"], record["seq"], record["hash"]))
        return [complaint for host in self.hosts for complaint in host.end()]

    def close(self, *, move_to: Path | None = None) -> None:
        """End all that runs; remove the folder, or move it."""
        for watcher in self._watchers:
            watcher.close()
        for host in self.hosts:
            host.close()
        if hasattr(self, "wires"):
            self.wires.close()
        if hasattr(self, "server"):
            self.server.kill()
        self._pen.close()
        self.log.close()
        if move_to is not None:
            move_to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(self.folder, move_to, ignore=shutil.ignore_patterns("*.sock"))
        if self.has_own_disk:
            subprocess.run(["umount", "--lazy", self.disk], check=True)
        shutil.rmtree(self.folder)

    # -- what is pushed --------------------------------------------------------------------------------------------

    @contextmanager
    def pushing(self, *, is_certain: bool = True) -> Generator[None]:
        """Push the next guards while the block runs; where it is certain, the push must be taken."""
        self._numbers += 1
        number, since = self._numbers, now()
        begun = self.publisher.begin(number)
        try:
            yield
        finally:
            is_taken = self.publisher.end(begun, number, since)
        assert is_taken or not is_certain, self.publisher.complaint

    def push(self) -> None:
        with self.pushing():
            pass

    def race(self) -> bool:
        """Have two publishers write at the same moment; return whether one of them was told that it lost."""
        self.server.ask("CLIENT", "PAUSE", int(PATIENCE * 1000), "WRITE")
        with ExitStack() as begun:
            for _ in range(2):
                begun.enter_context(self.pushing(is_certain=False))
            wait_until(lambda: self._waiting_publishers() == 2, PATIENCE)
            self.server.ask("CLIENT", "UNPAUSE")
        told = [line for line in read([self.histories / "harness.jsonl"]) if isinstance(line, Committed | Declined)]
        assert any(isinstance(line, Committed) for line in told[-2:]), self.publisher.complaint
        return isinstance(told[-2], Declined) or isinstance(told[-1], Declined)

    def _waiting_publishers(self) -> int:
        clients = self.server.ask("CLIENT", "LIST")
        assert isinstance(clients, bytes)
        return sum(
            b" user=publisher " in line and b"b" in line.partition(b" flags=")[2].partition(b" ")[0]
            for line in clients.splitlines()
        )

    def roll_back(self) -> None:
        """Have other guards in force again: those of the newest version that had others."""
        *_, newest = self.versions()
        others = [one for one in self.versions() if one.bundle != newest.bundle]
        if not others:
            self.push()
            others = [newest]
        assert self.publisher.roll_back(others[-1].version, others[-1].number), self.publisher.complaint

    def versions(self) -> list[Committed]:
        """Return what the engine holds, in order; what no publisher was told of is written down now."""
        noted = {one.version: one for one in read([self.histories / "harness.jsonl"]) if isinstance(one, Committed)}
        begun = {one.number: one.since for one in read([self.histories / "harness.jsonl"]) if isinstance(one, Declined)}
        for version, bundle in self.engine_versions():
            if version not in noted:
                number = self._number_of(bundle)
                noted[version] = Committed(version, bundle, number, begun[number], now())
                self.write(noted[version])
        return [noted[version] for version in sorted(noted)]

    def engine_versions(self) -> list[tuple[int, str]]:
        """Return the versions that the engine holds, each with its bundle's digest."""
        entries = self.server.ask("XRANGE", f"hooklatch:{FLEET}:policy", "-", "+")
        assert isinstance(entries, list)
        found = []
        for _, fields in entries:
            envelope = next(json.loads(value) for value in fields if value.startswith(b"{"))
            manifest = json.loads(envelope["payload"])
            found.append((int(manifest["version"]), str(manifest["bundle"])))
        return found

    def report_of(self, host: Host) -> HostReport:
        """Return what a host last said of itself to the engine."""
        entries = self.server.ask("XREVRANGE", f"hooklatch:{FLEET}:host:{host.name}", "+", "-", "COUNT", 1)
        assert isinstance(entries, list)
        return read_report(entries[0][1][1], host.name)

    def _number_of(self, bundle: str) -> int:
        files = msgspec.json.decode(self.server.ask("GET", f"hooklatch:{FLEET}:bundle:{bundle}"), type=Bundle).files
        found = re.search(rb"guard_first_(\d+)", files["first.py"])
        assert found is not None
        return int(found[1])

    # -- what is waited for ----------------------------------------------------------------------------------------

    def heal(self) -> float:
        """Wait until every host has the newest version in force; return how many seconds that took."""
        since, wanted = now(), self.versions()[-1]
        states: dict[str, State] = {}

        def are_equal() -> bool:
            for host in self.hosts:  # asked in turn, as each question is work for who is waited for
                if host.name not in states or states[host.name].version != wanted.version:
                    state = state_of(host)
                    if state is None or state.version != wanted.version:
                        return False
                    states[host.name] = state
            return True

        wait_until(are_equal, PATIENCE, pause=PAUSE)
        at = now()
        digests = {host.name: states[host.name].bundle if host.name in states else "" for host in self.hosts}
        self.write(Healed(since, at, digests, wanted.bundle))
        return (at - since) / 1e9

    def await_gates(self, hosts: Sequence[Host], count: int) -> None:
        """Wait until each of these hosts has decided some more gates."""
        enough = {host.name: self._decided(host) + count for host in hosts}
        assert wait_until(lambda: all(self._decided(host) >= enough[host.name] for host in hosts)), self.last_words()

    def write(self, line: Line) -> None:
        self._pen.write(line)

    # -- the engine's disk -----------------------------------------------------------------------------------------

    def fill_disk(self) -> None:
        with (self.disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 4096):
                continue

    def empty_disk(self) -> None:
        (self.disk / "filler").unlink()

    # -- what happened ---------------------------------------------------------------------------------------------

    def history(self) -> list[Line]:
        return list(read(sorted(self.histories.glob("*.jsonl"))))

    def last_words(self) -> str:
        self.log.flush()
        return "".join((self.folder / "log").read_text(errors="replace").splitlines(keepends=True)[-60:])

    def leftovers(self) -> list[str]:
        """Return what is there that should not be, after a clean end of the hosts."""
        found = [f"{path.relative_to(self.folder)}" for host in self.hosts for path in (host.folder / "tmp").rglob("*")]
        for host in self.hosts:
            found += [f"{host.name}: {path.name}" for path in host.runtime.iterdir() if path.name != "daemon.lock"]
            found += [f"{host.name}: {path}" for path in host.state.rglob("*") if path.name.endswith((".new", ".tmp"))]
        return found

    def _host(self, name: str) -> Host:
        table = TABLE.format(
            always=ALWAYS, fleet=FLEET, url=self.wires.url(name, f"host-{name}"), host=name, key=self.publisher.public
        )
        host = Host(name, self.folder / name, self.wires.prefix(name), table, self.log)
        password = host.config.with_name("password")
        password.touch(mode=0o600)
        password.write_text(password_of(f"host-{name}"))
        return host

    def _is_shipped(self, host: Host) -> bool:
        """Return whether the engine has the newest record of a host."""
        own, state = f"hooklatch:{FLEET}:log:{host.name}", state_of(host)
        epochs = self.server.ask("SMEMBERS", f"{own}:epochs")
        assert isinstance(epochs, list)
        newest = max(epochs, key=int, default=b"1").decode()
        return state is not None and self.server.newest(f"{own}:{newest}") == state.record

    def _decided(self, host: Host) -> int:
        """Return how many gates of a host a daemon answered."""
        return (self.histories / f"{host.name}.jsonl").read_bytes().count(b'"is_local":false')


def mounted(folder: Path) -> bool:
    """Give a folder a small disk of its own, where that is allowed; return whether it has one."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "hooklatch-test", str(folder)]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
