<<<<<<< HEAD
"""A publisher of a fleet for tests: signs versions and makes their bundles; holds no engine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from hooklatch.fleet.policy.bundles import Bundle, encode_bundle
from hooklatch.fleet.policy.manifests import Envelope, Manifest, Rollout, payload_of
from hooklatch.fleet.policy.signing import PrivateKey, new_key
from support.daemons import Client

__all__ = ["DENIES_BASH", "Published", "Publisher", "brought", "guard"]


def guard(reason: str, tool: str = "Bash") -> str:
    """Return a source whose guard denies a tool for this reason."""
    return (
        "from hooklatch import deny, hook\n\n"
        f'@hook("pre_tool_use", match="{tool}", id="no-{tool.lower()}")\n'
        f"def guard(event):\n    return deny({reason!r})\n"
    )


EVERYWHERE = Rollout()
DENIES_BASH = {"guards.py": guard("fleet")}


class Published(NamedTuple):
    """A version as the engine has it: its manifest's envelope, and its bundle."""

    version: int
    envelope: str
    bundle: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.bundle).hexdigest()

    @property
    def applying(self) -> dict[str, Any]:
        """Return the params that bring it."""
        return {"version": self.version, "bundle": msgspec.to_builtins(self.bundle)}


class Publisher:
    """Signs one version after another."""

    def __init__(self, fleet: str = "acme", key: PrivateKey | None = None) -> None:
        self.fleet = fleet
        self.key = key or new_key()
        self.versions: list[Published] = []
        self._previous = ""

    @property
    def public(self) -> str:
        return self.key.public.text

    def publish(
        self,
        files: Mapping[str, str],
        *,
        suspendable: bool = False,
        rollout: Rollout = EVERYWHERE,
        bundle: bytes | None = None,
        **changes: Any,
    ) -> Published:
        """Add a version; `bundle` are other bytes than those of the files, `changes` fields of its manifest."""
        if bundle is None:
            bundle = encode_bundle(Bundle({name: text.encode() for name, text in files.items()}, suspendable))
        manifest = Manifest(
            fleet=self.fleet, version=len(self.versions) + 1, previous=self._previous,
            bundle=hashlib.sha256(bundle).hexdigest(), size=len(bundle), rollout=rollout,
        )  # fmt: skip
        payload = payload_of(msgspec.structs.replace(manifest, **changes))
        envelope = Envelope(payload, self.key.public.id, self.key.sign(payload.encode()))
        self._previous = envelope.digest
        made = Published(manifest.version, msgspec.json.encode(envelope).decode(), bundle)
        self.versions.append(made)
        return made


async def brought(link: Client, *versions: Published) -> dict[str, Any]:
    """Bring versions to a daemon as a link does, the last one's bundle too; return where the daemon stands then."""
    await link.call("fleet_follow", manifests=[one.envelope for one in versions])
    await link.call("fleet_apply", **versions[-1].applying)
    return await link.call("fleet_follow", manifests=[])
=======
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
>>>>>>> flE
