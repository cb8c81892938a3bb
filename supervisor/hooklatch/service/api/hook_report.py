"""One hook, whole: its definition, how it does, and how it last failed.  Reads the parts; changes none."""

from __future__ import annotations

from typing import Any

from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.text import did_you_mean
from hooklatch.service.api.hub import Hub
from hooklatch.service.api.reports import Reports
from hooklatch.service.registry.sessions import Session

__all__ = ["Inquiry"]


class Inquiry:
    """Answers what is asked about one hook."""

    def __init__(self, hub: Hub, reports: Reports) -> None:
        self._hub = hub
        self._reports = reports

    def about(self, name: str, viewer: Session | None, *, is_admin: bool) -> dict[str, Any]:
        """Describe every hook of this id (or `layer/id`) that the viewer sees; an admin without a session sees all.

        A session is shown the failures of its own hooks alone: those of others may hold others' payloads.

        Raises:
            RpcError: there is none.
        """
        registries = self._hub.registries
        seen = registries.every_hook() if viewer is None else [*registries.view_of(viewer).hooks]
        hooks = [hook for hook in dict.fromkeys(seen) if name in (hook.id, hook.name)]
        if not hooks:
            near = did_you_mean(name, {known for hook in seen for known in (hook.id, hook.name)})
            raise RpcError(ErrorCode.NOT_FOUND, f"there is no hook {name!r}{near} (see: hooklatch hooks)")
        return {
            "revision": registries.view_of(viewer).revision,
            "hooks": [
                self._described(hook, is_shown=is_admin or (viewer is not None and hook.owner == viewer.id))
                for hook in hooks
            ],
        }

    def _described(self, hook: Hook, *, is_shown: bool) -> dict[str, Any]:
        target = hook.target
        return {
            **self._reports.describe(hook),
            "owner": hook.owner or None,
            "command": target.command or None if isinstance(target, PythonTarget) else None,
            "last_failures": self._hub.statistics.failures.of(hook) if is_shown else None,
        }
