"""Writes the types of `@hook`, one overload an event, from the catalogue.  Run it: python tests/support/hook_stub.py"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch_worker.author.events import EVENT_CLASSES

ROOT = Path(__file__).parents[2]
STUB = ROOT / "workers" / "hooklatch_worker" / "author" / "decorator.pyi"
CAPABILITIES = ["allow", "deny", "ask", "halt", "claim", "amend", "inject", "append", "resume", "last"]

HEAD = '''\
"""What a hook of each event may take and answer, for type checkers.

Written by `python tests/support/hook_stub.py` from the catalogue; a test holds it to that.  The last overload takes
any call, so that a wrong option is one short error and not a list of all overloads; it overlaps the others on purpose.
"""

# mypy: disable-error-code="overload-overlap"
# pyright: reportOverlappingOverload=false

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Never, TypeAlias, TypedDict, TypeVar, Unpack, overload

from hooklatch_worker.author import events as e
from hooklatch_worker.author.verdicts import Verdict

E = TypeVar("E")
V = TypeVar("V")
Hook: TypeAlias = Callable[[E], V | Awaitable[V | None] | None]

class Options(TypedDict, total=False):
    match: str | list[str] | Mapping[str, object] | None
    where: Mapping[str, object] | None
    id: str | None
    priority: int
    timeout: float | None
    description: str
    enabled: bool
    observe: bool
    optional: bool
    only_judges: bool
    config: dict[str, Any] | None
    runtime: Literal["trio", "asyncio"]
    files: list[str] | tuple[str, ...]

class AmendOptions(Options, total=False):
    amends: bool

class NothingToAmend:
    """Fits no function: the type of a hook declared with `amends` on an event that cannot be amended."""

class WrongOption:
    """Fits no function: the type of a hook marked with an option, or a value of one, that @hook does not take."""

'''
HOOK = 'AnyHook = TypeVar("AnyHook", bound=Hook[Any, Verdict[Any]])\n'
EVENT_HOOK = '{0}Hook = TypeVar("{0}Hook", bound=Hook[e.{0}, Verdict[{1}]])\n'
# Callable is spelt out every time: through an alias of it, mypy loses the type of the decorated function.
OVERLOAD = """\
@overload
def hook(event: Literal["{event}"], **options: Unpack[{options}]) -> Callable[[{hook}], {hook}]: ...
"""
# What the first and the last return accepts no function, so type checkers report an error where they are chosen.
TAIL = """\
@overload
def hook(
    event: Literal[{unchanging}], *, amends: bool, **options: Unpack[Options]
) -> Callable[[NothingToAmend], NothingToAmend]: ...
@overload
def hook(event: str | list[str], **options: Unpack[AmendOptions]) -> Callable[[AnyHook], AnyHook]: ...
@overload
def hook(event: object = ..., **options: object) -> Callable[[WrongOption], WrongOption]: ...
"""


def legal(spec: EventSpec) -> set[str]:
    """Return what a hook of an event may answer."""
    extras = {"amend"} if spec.patch else set[str]()
    if spec.allows_last:
        extras.add("last")
    return {*spec.verdicts, *spec.outputs, *extras}


def stub() -> str:
    """Return the stub as it should be."""
    catalogue = Catalogue.standard()
    names = {event: EVENT_CLASSES[event].__name__ for event in catalogue}
    answers = {event: [one for one in CAPABILITIES if one in legal(spec)] for event, spec in catalogue.items()}
    text = HEAD + HOOK
    text += "".join(
        EVENT_HOOK.format(names[event], f"Literal{answers[event]}" if answers[event] else "Never")
        for event in catalogue
    )
    text += "".join(
        OVERLOAD.format(event=event, options="AmendOptions" if spec.patch else "Options", hook=f"{names[event]}Hook")
        for event, spec in catalogue.items()
    )
    unchanging = [event for event, spec in catalogue.items() if not spec.patch]
    text += TAIL.format(unchanging=", ".join(map(repr, unchanging)))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(STUB), "-"]
    return subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    STUB.write_text(stub())
