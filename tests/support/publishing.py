"""A publisher of a fleet for tests: signs versions and makes their bundles; holds no engine."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from hooklatch.fleet.manifests import (
    Bundle,
    Manifest,
    PolicyHead,
    RolloutTarget,
    SignedManifest,
    encode_bundle,
    encode_signed_text,
    read_envelope,
)
from hooklatch.fleet.roles import LONGEST, sign_timestamp
from hooklatch.fleet.signing import PrivateKey, Purpose, make_key
from support.daemons import Client

__all__ = ["DENIES_BASH", "Published", "Publisher", "brought", "guard"]


def guard(reason: str, tool: str = "Bash") -> str:
    """Return a source whose guard denies a tool for this reason."""
    return (
        "from hooklatch import deny, hook\n\n"
        f'@hook("pre_tool_use", match="{tool}", id="no-{tool.lower()}")\n'
        f"def guard(event):\n    return deny({reason!r})\n"
    )


EVERYWHERE = RolloutTarget()
DENIES_BASH = {"guards.py": guard("fleet")}


class Published(NamedTuple):
    """A version as the engine has it: its manifest's envelope, and its bundle."""

    version: int
    envelope: str
    bundle: bytes
    timestamp: str  # signed when it was published

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
        self.key = key or make_key()
        self.versions: list[Published] = []
        self._previous = ""

    @property
    def public(self) -> str:
        return self.key.public.text

    @property
    def head(self) -> PolicyHead:
        return PolicyHead(len(self.versions), self._previous)

    def restored(self, count: int) -> Publisher:
        """Return a publisher whose engine has only the first versions: it was put back from an old copy."""
        other = Publisher(self.fleet, self.key)
        other.versions = self.versions[:count]
        other._previous = read_envelope(other.versions[-1].envelope.encode()).digest if count else ""
        return other

    def publish(
        self,
        files: Mapping[str, str],
        *,
        suspendable: bool = False,
        rollout: RolloutTarget = EVERYWHERE,
        bundle: bytes | None = None,
        **changes: Any,
    ) -> Published:
        """Add a version; `bundle` are other bytes than those of the files, `changes` fields of its manifest."""
        if bundle is None:
            bundle = encode_bundle(Bundle({name: text.encode() for name, text in files.items()}, suspendable))
        manifest = Manifest(
            fleet=self.fleet, version=len(self.versions) + 1, previous=self._previous,
            bundle=hashlib.sha256(bundle).hexdigest(), size=len(bundle), rollout=rollout,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )  # fmt: skip
        payload = encode_signed_text(msgspec.structs.replace(manifest, **changes))
        envelope = SignedManifest(payload, self.key.public.id, self.key.sign(payload.encode(), Purpose.MANIFEST))
        self._previous = envelope.digest
        head = PolicyHead(manifest.version, envelope.digest)
        made = Published(manifest.version, msgspec.json.encode(envelope).decode(), bundle, self.timestamp(head))
        self.versions.append(made)
        return made

    def timestamp(self, head: PolicyHead | None = None, *, at: float | None = None, lasts: float = LONGEST) -> str:
        """Return a timestamp of the newest version, or of another, as of now or of another time."""
        head = head or PolicyHead(len(self.versions), self._previous)
        at = time.time() if at is None else at
        return sign_timestamp(self.fleet, head, self.key, at=at, lasts=lasts).decode()


async def brought(link: Client, *versions: Published) -> dict[str, Any]:
    """Bring versions to a daemon as a link does, the last one's bundle too; return where the daemon stands then."""
    await link.call("fleet_follow", manifests=[one.envelope for one in versions])
    await link.call("fleet_apply", **versions[-1].applying)
    return await link.call("fleet_follow", manifests=[], timestamp=versions[-1].timestamp)
