"""An engine that lies: it alters bundles and versions, adds its own, loses some, and repeats an older log.

No host believes it, each says so, gates go on by the last good version, and all come back once it tells the truth.
Slow: three daemons and links are started, and each lie must reach all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from chaos.arena import wait_until
from fleet.system.arena import FLEET, PATIENCE, Arena
from fleet.system.checker import check
from fleet.system.test_system import wires
from fleet.system.watching import state_of
from hooklatch.fleet.manifests import (
    Bundle,
    Manifest,
    SignedManifest,
    encode_bundle,
    encode_signed_text,
    read_envelope,
    read_payload,
)
from hooklatch.fleet.signing import Purpose, make_key
from support.daemons import nothing_left
from support.redis_server import needs_redis
from support.survivors import nobody_survives

pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(400), needs_redis]
POLICY = f"hooklatch:{FLEET}:policy"


@contextmanager
def running_fleet(keep: Path) -> Generator[Arena]:
    """Yield a fleet that fires and is watched; where the block fails, what is left of it is copied to `keep`."""
    with nobody_survives(), nothing_left():
        arena = Arena(wires())
        is_good = False
        try:
            arena.set_up()
            yield arena
            is_good = True
        finally:
            arena.close(move_to=None if is_good else keep)


class Liar:
    """Writes into the engine what no publisher did, and takes it back."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._server = arena.server

    @property
    def newest(self) -> tuple[int, SignedManifest]:
        [[number, fields]] = self._server.ask("XREVRANGE", POLICY, "+", "-", "COUNT", "1")  # type: ignore[misc]
        return int(number.partition(b"-")[0]), read_envelope(next(one for one in fields if one.startswith(b"{")))

    def bundle_key(self) -> str:
        return f"hooklatch:{FLEET}:bundle:{read_payload(self.newest[1]).bundle}"

    def append(self, envelope: SignedManifest) -> None:
        version, _ = self.newest
        [[_, fields]] = self._server.ask("XREVRANGE", POLICY, "+", "-", "COUNT", "1")  # type: ignore[misc]
        data = msgspec.json.encode(envelope)
        given = [data if field.startswith(b"{") else field for field in fields]
        self._server.ask("XADD", POLICY, f"{version + 1}-0", *given)

    def take_back(self) -> None:
        version, _ = self.newest
        self._server.ask("XDEL", POLICY, f"{version}-0")
        self._server.ask("XSETID", POLICY, f"{version - 1}-0")

    def next_manifest(self, files: dict[str, bytes]) -> Manifest:
        """Return what would follow on the newest version, with a bundle that is in the engine."""
        version, envelope = self.newest
        data = encode_bundle(Bundle(files))
        digest = hashlib.sha256(data).hexdigest()
        self._server.ask("SET", f"hooklatch:{FLEET}:bundle:{digest}", data)
        return Manifest(
            fleet=FLEET, version=version + 1, previous=envelope.digest, bundle=digest, size=len(data),
        )  # fmt: skip


def alter_the_bundle(liar: Liar, arena: Arena) -> Callable[[], None]:
    """Have a bundle with one byte changed, of the same size."""
    for host in arena.hosts:
        host.pause(host.link)
    arena.push()
    key = liar.bundle_key()
    data = arena.server.ask("GET", key)
    assert isinstance(data, bytes)
    arena.server.ask("SET", key, data.replace(b'"suspendable":false', b'"suspendable":true '))
    for host in arena.hosts:
        host.pause(host.link, is_paused=False)
    return lambda: none(arena.server.ask("SET", key, data))


def alter_a_version(liar: Liar, arena: Arena) -> Callable[[], None]:
    """Have a version that a trusted key signed, with a word of it changed."""
    _, newest = liar.newest
    manifest = liar.next_manifest({"guards.py": b"# lets everything through\n"})
    liar.append(SignedManifest(encode_signed_text(manifest), newest.key, newest.signature))
    return liar.take_back


def sign_as_a_stranger(liar: Liar, arena: Arena) -> Callable[[], None]:
    """Have a perfect version, but for the key that signed it."""
    key = make_key()
    payload = encode_signed_text(liar.next_manifest({"guards.py": b"# lets everything through\n"}))
    liar.append(SignedManifest(payload, key.public.id, key.sign(payload.encode(), Purpose.MANIFEST)))
    return liar.take_back


def leave_one_out(liar: Liar, arena: Arena) -> Callable[[], None]:
    """Have the version after the next, without the next."""
    for host in arena.hosts:
        host.pause(host.link)
    arena.push()
    arena.push()
    missing, _ = liar.newest
    [[_, fields]] = arena.server.ask("XRANGE", POLICY, f"{missing - 1}-0", f"{missing - 1}-0")  # type: ignore[misc]
    [[_, last]] = arena.server.ask("XRANGE", POLICY, f"{missing}-0", f"{missing}-0")  # type: ignore[misc]
    arena.server.ask("XDEL", POLICY, f"{missing - 1}-0")
    for host in arena.hosts:
        host.pause(host.link, is_paused=False)

    def put_back() -> None:
        arena.server.ask("XDEL", POLICY, f"{missing}-0")
        arena.server.ask("XSETID", POLICY, f"{missing - 2}-0")
        arena.server.ask("XADD", POLICY, f"{missing - 1}-0", *fields)
        arena.server.ask("XADD", POLICY, f"{missing}-0", *last)

    return put_back


def go_back_in_time(liar: Liar, arena: Arena) -> Callable[[], None]:
    """Have the engine restored from an old backup, whose next number hosts have read already."""
    old = arena.server.backup()
    arena.push()
    arena.heal()
    new = arena.server.backup()
    arena.server.restore(old)
    before = arena.engine_versions()
    with arena.pushing(is_certain=False):
        pass
    assert arena.engine_versions() == before, "a version was numbered again"
    return lambda: arena.server.restore(new)


def none(_: object) -> None:
    return None


LIES = [alter_the_bundle, alter_a_version, sign_as_a_stranger, leave_one_out, go_back_in_time]


def test_no_host_believes_an_engine_that_lies_and_all_come_back_to_the_truth(tmp_path: Path) -> None:
    with running_fleet(tmp_path / "fleet") as arena:
        liar = Liar(arena)

        for lie in LIES:
            tell_the_truth = lie(liar, arena)
            before = versions(arena)
            assert wait_until(lambda: all(problems(arena)), PATIENCE), f"{lie.__name__}: {problems(arena)}"
            arena.await_gates(arena.hosts, 3)
            assert versions(arena) == before, lie.__name__
            tell_the_truth()
            arena.heal()
            assert wait_until(lambda: not any(problems(arena)), PATIENCE), f"{lie.__name__}: {problems(arena)}"

        arena.push()
        arena.heal()
        assert arena.settle() == []
        assert check(arena.history()) == []


def problems(arena: Arena) -> list[str | None]:
    """Return what is wrong by the newest report of each host."""
    return [arena.report_of(host).problem for host in arena.hosts]


def versions(arena: Arena) -> list[int]:
    return [state.version for host in arena.hosts if (state := state_of(host)) is not None]
