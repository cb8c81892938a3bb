"""Builds a bundle's hooks as a daemon does, and fires the cases beside them.  Writes only into a temporary folder.

What is built is what was read into memory: the folder that is pushed is not opened again, but for cases' payloads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.testing.policy_tests import Result, Run, fire_cases, scratch_folder
from hooklatch.core.text import counted

if TYPE_CHECKING:
    from hooklatch.cli.testing.cases import Case
    from hooklatch.core.hooks.registry import Hook
    from hooklatch.service.process.parts import Parts

__all__ = ["Trial", "try_out"]

Described = dict[str, Any]


class Trial(Run):
    """A run of the cases that also tells which hooks there were; `hooks` by their ids."""

    def __init__(self, cases: list[Case], tell: Callable[[Result], None], folder: str) -> None:
        super().__init__(cases, tell)
        self.hooks: dict[str, Described] = {}
        self._folder = folder

    async def fire_each(self, parts: Parts) -> None:
        below = f"{self._folder}/"
        for hook in parts.registries.view.hooks:
            if hook.origin is not None and hook.origin.file.startswith(below):
                self.hooks[hook.id] = described(hook)
        await super().fire_each(parts)
        self.diagnostics = [text.replace(below, "") for text in self.diagnostics]

    def check(self) -> None:
        """Refuse what does not build, and what a case does not find as it should be.

        Raises:
            CommandError: one of these.
        """
        if self.diagnostics:
            lines = "\n  ".join(self.diagnostics)
            raise CommandError(Exit.FINDINGS, f"the hooks do not load, so nothing was pushed:\n  {lines}")
        if self.error is not None:
            raise self.error
        if self.failed:
            raise CommandError(
                Exit.FINDINGS, f"{counted(self.failed, 'case')} of {len(self.results)} failed, so nothing was pushed"
            )


def try_out(files: Mapping[str, bytes], cases: list[Case], tell: Callable[[Result], None]) -> Trial:
    """Build the hooks of a bundle's files, and fire cases at them.

    Raises:
        CommandError: hooks cannot be run here.
    """
    from hooklatch.service.process.folders import Options
    from hooklatch_worker.sandbox import linux

    if not linux.is_supported():
        raise CommandError(Exit.UNAVAILABLE, "hooks run on Linux with pidfd (5.3 or later) and /proc only")
    logging.getLogger("hooklatch").addHandler(logging.NullHandler())  # the report contains what matters
    with scratch_folder() as scratch:
        folder = os.path.join(os.path.realpath(scratch), "config", "hooks.d")
        unpack(folder, files)
        trial = Trial(cases, tell, folder)
        options = Options(
            config=os.path.join(os.path.dirname(folder), "hooks.toml"),
            runtime_dir=os.path.join(scratch, "run"),
            state_dir=os.path.join(scratch, "state"),
            owns_process=False,
        )
        fire_cases(trial, options)
    return trial


def unpack(folder: str, files: Mapping[str, bytes]) -> None:
    os.makedirs(folder, mode=0o700)
    for name, data in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)


def described(hook: Hook) -> Described:
    """Return what a person compares of a hook in two versions."""
    return {
        "event": hook.event,
        "match": str(hook.matcher),
        "priority": hook.priority,
        "timeout": hook.timeout,
        "observe": hook.observe,
        "optional": hook.optional,
        "amends": hook.amends,
        "only_judges": hook.only_judges,
        "enabled": hook.enabled,
        "description": hook.description,
    }
