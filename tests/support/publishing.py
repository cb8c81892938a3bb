"""What tests of publishing share: keys, versions by hand, and an engine whose replies are lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooklatch.fleet.engine.engine import Engine, UnreachableError
from hooklatch.fleet.policy.manifests import START, Head, Rollout
from hooklatch.fleet.policy.reports import Gates, HostReport, encode_report
from hooklatch.fleet.policy.signing import PrivateKey, new_key
from hooklatch.fleet.publishing.versions import Entry, History, Plan, signed

FLEET = "acme"
KEY = new_key()
OTHER_KEY = new_key()
KEYS = {KEY.public.id: KEY.public}


def digest_of(letter: str) -> str:
    """Return what stands for a bundle's sha256: a letter, 64 times."""
    return letter * 64


def grown(
    history: History, bundle: str, percent: float = 100.0, *labels: str, key: PrivateKey = KEY, is_believed: bool = True
) -> History:
    """Return a history with one more version."""
    plan = Plan(bundle=digest_of(bundle), size=1, rollout=Rollout(labels, percent))
    manifest, envelope = signed(history, plan, key, created="2026-11-22T10:00:00+00:00", publisher="ann", message="")
    return History(history.fleet, (*history.entries, Entry(manifest, envelope, is_believed)))


def history_of(*versions: tuple[Any, ...]) -> History:
    """Return a history of versions: each a bundle's letter, a percentage, and labels."""
    history = History(FLEET)
    for version in versions:
        history = grown(history, *version)
    return history


def report_of(
    host: str,
    bundle: str = "",
    decided: int = 0,
    denied: Mapping[str, int] = {},
    *,
    head: Head = START,
    since: int = 1,
    **facts: Any,
) -> HostReport:
    """Return what a host says: which bundle is in force there, by its letter or digest, and what its gates decided."""
    digest = digest_of(bundle) if len(bundle) == 1 else bundle
    applied = {"applied": head.version or 1, "bundle": digest} if bundle else {}
    gates = Gates(since, decided, dict(denied))
    return HostReport(**{"host": host, "health": "ready", "head": head, "gates": gates, **applied, **facts})


async def say(engine: Engine, report: HostReport) -> None:
    """Have a host report."""
    await engine.report(report.host, encode_report(report))


class LossyEngine:
    """An engine whose first `lost` commits are lost: before it has them, or after, when only its reply is.

    While it is away nothing can be read from it either.
    """

    def __init__(self, engine: Engine, *, lost: int = 1, is_done: bool = True) -> None:
        self.is_away = False
        self._engine = engine
        self._lost = lost
        self._is_done = is_done

    async def commit(self, version: int, manifest: bytes) -> None:
        if self._lost:
            self._lost -= 1
            if self._is_done:
                await self._engine.commit(version, manifest)
            raise UnreachableError("the connection was lost")
        await self._engine.commit(version, manifest)

    async def versions(self, after: int, *, wait: float = 0.0, limit: int = 100) -> Sequence[tuple[int, bytes]]:
        if self.is_away:
            raise UnreachableError("the engine is away")
        return await self._engine.versions(after, wait=wait, limit=limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)
