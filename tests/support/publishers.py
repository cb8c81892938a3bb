"""What tests of publishing share: keys, versions by hand, an engine whose replies are lost, a publisher's machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from hooklatch.cli.commands import run as run_command
from hooklatch.fleet.engine.engine import Engine, UnreachableError
from hooklatch.fleet.manifests import DEFAULT_POLICY, START, PolicyHead, RolloutTarget
from hooklatch.fleet.publishing.versions import StoredVersion, VersionDraft, VersionHistory, sign_version
from hooklatch.fleet.reports import GateCounts, HostReport, encode_report
from hooklatch.fleet.signing import PrivateKey, make_key
from support.commands import Place, Started
from support.described import check

FLEET = "acme"
KEY = make_key()
OTHER_KEY = make_key()
KEYS = {KEY.public.id: KEY.public}


def digest_of(letter: str) -> str:
    """Return what stands for a bundle's sha256: a letter, 64 times."""
    return letter * 64


def grown(
    history: VersionHistory,
    bundle: str,
    percent: float = 100.0,
    *labels: str,
    key: PrivateKey = KEY,
    is_read: bool = True,
    is_believed: bool = True,
    policy: str = DEFAULT_POLICY,
) -> VersionHistory:
    """Return a history with one more version."""
    plan = VersionDraft(bundle=digest_of(bundle), size=1, rollout=RolloutTarget(labels, percent), policy=policy)
    manifest, envelope = sign_version(
        history, plan, key, created="2026-11-22T10:00:00+00:00", publisher="ann", message=""
    )
    return VersionHistory(history.fleet, (*history.entries, StoredVersion(manifest, envelope, is_read, is_believed)))


def history_of(*versions: tuple[Any, ...]) -> VersionHistory:
    """Return a history of versions: each a bundle's letter, a percentage, and labels."""
    history = VersionHistory(FLEET)
    for version in versions:
        history = grown(history, *version)
    return history


def report_of(
    host: str,
    bundle: str = "",
    decided: int = 0,
    denied: Mapping[str, int] = {},
    *,
    head: PolicyHead = START,
    since: int = 1,
    **facts: Any,
) -> HostReport:
    """Return what a host says: which bundle is in force there, by its letter or digest, and what its gates decided."""
    digest = digest_of(bundle) if len(bundle) == 1 else bundle
    applied = {"applied": head.version or 1, "bundle": digest} if bundle else {}
    gates = GateCounts(since, decided, dict(denied))
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

    async def versions(self, after: int, *, limit: int = 100) -> Sequence[tuple[int, bytes]]:
        if self.is_away:
            raise UnreachableError("the engine is away")
        return await self._engine.versions(after, limit=limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


GUARDS = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no_rm(event):
    if "rm" in event.tool_input["command"]:
        return deny("no rm here")
"""
CASES = """
[[case]]
name = "rm is refused"
event = "pre_tool_use"
payload = { tool_name = "Bash", tool_input = { command = "rm x" } }
expect = "deny"
"""


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


class Bench:
    """A publisher's machine: `hooks` is the folder to push, and commands know the engine, the fleet and the key.

    Commands run in this process, but for those that are begun.
    """

    def __init__(self, place: Place, url: str, fleet: str, key: PrivateKey, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.place = place
        self.url = url
        self.fleet = fleet
        self.key = key
        self.hooks = place.folder / "hooks"
        self.hooks.mkdir(mode=0o700)
        self.key_file = place.folder / "fleet.key"
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(key.text)
        self.write("guards.py", GUARDS)
        self.write("policy-tests.toml", CASES)

    def write(self, name: str, text: str) -> None:
        (self.hooks / name).write_text(text)

    def words(self, *words: str, **instead: str) -> list[str]:
        """Return a command's words with the options that it needs; `instead` are others for some of them."""
        options = {"to": self.url, "fleet": self.fleet, "key": str(self.key_file), **instead}
        return ["fleet", *words, *(word for name, value in options.items() for word in (f"--{name}", value))]

    def run(self, *words: str, **instead: str) -> Done:
        return self.run_plain(*self.words(*words, **instead))

    def run_plain(self, *words: str) -> Done:
        """Run a command without options of ours."""
        self._capfd.readouterr()
        try:
            code = run_command(list(words))
        except SystemExit as ended:  # of argparse
            code = int(str(ended.code))
        said = self._capfd.readouterr()
        return Done(code, said.out, said.err)

    def json(self, *words: str, code: int = 0) -> Any:
        done = self.run(*words, "--json")
        assert done.code == code, done
        said = json.loads(done.out)
        check(f"fleet {' '.join(words[:2]) if words[0] == 'keys' else words[0]}", said)
        return said

    def begin(self, *words: str) -> Started:
        return self.place.begin(*self.words(*words))

    def push(self, *words: str) -> Any:
        return self.json("push", str(self.hooks), *words)
