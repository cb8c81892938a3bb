"""Cases that a driver in another language plays through that language's own functions.  Plain data; knows no system.

A case is a list of steps.  A step is one command for the driver (`clients/README.md`), and what its answer has to be:
exactly that, but for the marks below, which stand in the place of a value:

{"$has": TEXT}      a text that has TEXT in it
{"$any": true}      anything that is there
{"$part": {...}}    an object of which only the named keys count; {"$absent": true} in it is a key that is not there
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

__all__ = ["ABSENT", "ANY", "Case", "Command", "Step", "has", "mismatch", "part", "play", "step"]

Command = dict[str, Any]
ANY: Final = {"$any": True}
ABSENT: Final = {"$absent": True}


class Step(msgspec.Struct, frozen=True):
    """A command, and what has to come of it; without `gives` anything but an error."""

    command: Command
    gives: object = None
    is_compared: bool = False


class Case(msgspec.Struct, frozen=True):
    """The steps that show one row; `options` are those that its session is opened with, beside the system's own."""

    steps: tuple[Step, ...]
    options: Command = {}


def step(command: Command, **gives: object) -> Step:
    """Return a step; `gives=VALUE` is what the driver has to answer as its result."""
    return Step(command, gives.get("gives"), "gives" in gives)


def has(text: str) -> object:
    """Return what stands for any text with this in it."""
    return {"$has": text}


def part(**keys: object) -> object:
    """Return what stands for any object with these keys."""
    return {"$part": keys}


def play(case: Case, do: Callable[[Command], Any], opening: Sequence[Command]) -> str | None:
    """Open a session by the system's commands, play a case, and return what is not as it has to be, or None."""
    for command in opening:
        answer = do({**command, **case.options})
        if isinstance(answer, Mapping) and "error" in answer:
            return f"the session was not opened: {answer['error']}"
    for number, wanted in enumerate(case.steps, 1):
        answer = do(wanted.command)
        if not wanted.is_compared:
            problem = "" if "error" not in answer else f"an error: {answer['error']}"
        else:
            problem = mismatch(answer.get("result", answer), wanted.gives, "")
        if problem:
            return f"step {number}, {wanted.command}: {problem}"
    return None


def mismatch(found: object, wanted: object, where: str) -> str:
    """Return where an answer differs from what is wanted, or an empty text."""
    if isinstance(wanted, dict):
        marked = cast("dict[str, Any]", wanted)
        if marked == ANY:
            return ""
        if marked.keys() == {"$has"}:
            is_so = isinstance(found, str) and marked["$has"] in found
            return "" if is_so else f"{where or 'it'} is {found!r}, without {marked['$has']!r}"
        if marked.keys() == {"$part"}:
            return mismatch_of_keys(found, marked["$part"], where, marked["$part"].keys())
        return mismatch_of_keys(found, marked, where, None)
    if isinstance(wanted, list) and isinstance(found, list):
        return mismatch_of_elements(cast("list[object]", found), cast("list[object]", wanted), where)
    # 1, 1.0 and true are three values.
    is_same = type(found) is type(wanted) and found == wanted
    return "" if is_same else f"{where or 'it'} is {found!r}, not {wanted!r}"


def mismatch_of_elements(found: list[object], wanted: list[object], where: str) -> str:
    if len(found) != len(wanted):
        return f"{where or 'it'} has {len(found)} elements, not {len(wanted)}: {found!r}"
    pairs = enumerate(zip(found, wanted, strict=True))
    return next((text for at, (a, b) in pairs if (text := mismatch(a, b, f"{where}[{at}]"))), "")


def mismatch_of_keys(found: object, wanted: Mapping[str, object], where: str, keys: object) -> str:
    if not isinstance(found, dict):
        return f"{where or 'it'} is {found!r}, not an object"
    table = cast("dict[str, object]", found)
    absent = [key for key, value in wanted.items() if value == ABSENT]
    if keys is None and (extra := table.keys() - wanted.keys()):
        return f"{where or 'it'} also has {sorted(extra)}: {table!r}"
    for key, value in wanted.items():
        if key in absent:
            if key in table:
                return f"{where}.{key} is there: {table[key]!r}"
        elif key not in table:
            return f"{where or 'it'} has no {key!r}: {table!r}"
        elif text := mismatch(table[key], value, f"{where}.{key}"):
            return text
    return ""
