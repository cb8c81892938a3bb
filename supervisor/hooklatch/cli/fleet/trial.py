"""The trial of a bundle: a daemon of its own applies it as every host will, and cases are fired at its hooks.

The daemon is in this process and in a temporary folder.  It follows one version that a new key has signed, and refuses
a bundle for the same reasons as a host.  The bundle is the one in memory: of the folder that is pushed only the cases'
payload files are opened again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.cli.testing.cases import Case
from hooklatch.cli.testing.running import CaseResult, CaseRunner, run_with_daemon
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.text import format_count
from hooklatch.fleet.host.host import FleetHost
from hooklatch.fleet.manifests import Bundle, RolloutTarget, encode_bundle
from hooklatch.fleet.publishing.versions import VersionDraft, VersionHistory, encode_envelope, sign_version
from hooklatch.fleet.signing import NoLibraryError, PrivateKey, make_key
from hooklatch.service.api.methods import PolicyRejectedError
from hooklatch.service.loading.bundle import BundleCandidate, BundleError
from hooklatch.service.parts import DaemonComponents

__all__ = ["CaseTrial", "try_out"]

Described = dict[str, Any]
FLEET = "trial"
COMPARED = (
    "priority", "timeout", "observe", "optional", "amends", "only_judges", "enabled", "description",
)  # fmt: skip
CONFIG = """\
[fleet]
name = "{fleet}"
host = "trial"
url = "redis://localhost"
keys = ["{key}"]
"""


class CaseTrial(CaseRunner):
    """A runner of cases at a bundle's hooks alone; `hooks` are these by their ids."""

    def __init__(
        self, bundle: Bundle, key: PrivateKey, cases: list[Case], report: Callable[[CaseResult], None]
    ) -> None:
        super().__init__(cases, report)
        self.hooks: dict[str, Described] = {}
        self._bundle = bundle
        self._key = key

    async def fire_each(self, parts: DaemonComponents) -> None:
        try:
            await self._apply(parts)
        except PolicyRejectedError as error:
            self.diagnostics = self.diagnostics or [str(error)]
            return
        await self.load(parts)
        self.hooks = {
            hook.id: describe_compared_hook(hook) for hook in parts.registries.view.hooks if hook.layer.label == "fleet"
        }
        await super().fire_each(parts)

    async def _apply(self, parts: DaemonComponents) -> None:
        data = encode_bundle(self._bundle)
        digest = hashlib.sha256(data).hexdigest()
        draft = VersionDraft(bundle=digest, size=len(data), rollout=RolloutTarget())
        _, envelope = sign_version(VersionHistory(FLEET), draft, self._key, created="", publisher="", message="")

        async def swap(candidate: BundleCandidate) -> object:
            try:
                return await parts.reloader.apply(candidate)
            except BundleError as error:
                root = f"{candidate.root}/"  # a temporary folder, which the person does not know
                self.diagnostics = [str(diagnostic).replace(root, "") for diagnostic in error.diagnostics]
                raise

        host = parts.fleet.use()
        assert isinstance(host, FleetHost)
        await host.layer.follow([encode_envelope(envelope).decode()])
        await host.layer.apply(1, data, swap)

    def check(self) -> None:
        """Refuse a bundle that does not build, or that fails a case."""
        if self.diagnostics:
            for text in self.diagnostics:
                output.print_error(f"wrong with the hooks: {text}")
            raise CommandError(
                Exit.FINDINGS, "the hooks do not load, so nothing was pushed; repair them, and push again"
            )
        if self.error is not None:
            raise self.error
        if self.failed:
            failed = f"{format_count(self.failed, 'case')} of {len(self.results)} failed"
            raise CommandError(Exit.FINDINGS, f"{failed}, so nothing was pushed; repair that, and push again")


def try_out(bundle: Bundle, cases: list[Case], report: Callable[[CaseResult], None]) -> CaseTrial:
    """Build the hooks of a bundle, and fire cases at them."""
    try:
        key = make_key()
    except NoLibraryError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None
    trial = CaseTrial(bundle, key, cases, report)
    run_with_daemon(trial.fire_all, settings=CONFIG.format(fleet=FLEET, key=key.public.text))
    return trial


def describe_compared_hook(hook: Hook) -> Described:
    """Return the fields of a hook that `fleet diff` compares."""
    matching = {"match": str(hook.matcher), "where": str(hook.where) if hook.where is not None else None}
    return {"event": hook.event, **matching, **{name: getattr(hook, name) for name in COMPARED}}
