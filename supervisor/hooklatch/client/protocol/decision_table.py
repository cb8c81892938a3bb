"""The table of all decisions that the daemon writes: decisions.json, made from the daemon's code (clients/README.md).

This module does not import msgspec, since `hooklatch fire` starts without it.
"""

from __future__ import annotations

import os

from hooklatch.core.light_json import is_list, is_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, TypeAlias

    Row: TypeAlias = tuple[bool, list[str], list[str]]  # whether it is retryable, what is never null, what always is

__all__ = ["MAX_INTEGER", "DecisionTable", "format_decision_table"]

MAX_INTEGER: Final = 2**53 - 1  # a larger one is another number in JavaScript


def format_decision_table() -> str:
    with open(os.path.join(os.path.dirname(__file__), "decisions.json"), encoding="ascii") as file:
        return file.read()


def describe_row_difference(row: Row, get: Callable[[str], object]) -> str:
    """Return the difference of a decision from a combination, "" if there is none."""
    is_retryable, required, empty = row
    if get("retryable") is not is_retryable:
        return f"its retryable is {not is_retryable}"
    for key in required:
        if get(key) is None:
            return f"its {key} is null"
    for key in empty:
        if get(key) is not None:
            return f"it has a {key}"
    return ""


def is_deeper(value: object, levels: int) -> bool:
    """Return whether plain data is nested deeper than this many levels."""
    inner = [value]
    for _ in range(levels + 1):
        inner = [
            child
            for parent in inner
            if is_object(parent) or is_list(parent)
            for child in (parent.values() if is_object(parent) else parent)
        ]
        if not inner:
            return False
    return True


class DecisionTable:
    """The check of a response against the table; `table` is the parsed text of `format_decision_table`."""

    def __init__(self, table: Any) -> None:
        self.depth: int = table["depth"]
        kinds = ("decision", "outcome", "head")
        self.shapes: dict[str, dict[str, dict[str, str]]] = {kind: table[kind] for kind in kinds}
        self._models: dict[str, str] = table["events"]
        self._rows: dict[tuple[str | None, str, str | None], list[Row]] = {}
        for row in table["combinations"]:
            forms = row["retryable"], row["set"], row["null"]
            # Of an event that this client does not know, any model's combination may be right.
            for model in (row["model"], None):
                self._rows.setdefault((model, row["verdict"], row["cause"]), []).append(forms)

    def misfit(self, event: str, verdict: str, cause: str | None, get: Callable[[str], object]) -> str:
        """Return why no daemon sends this decision, or "" if it does; `get` returns the value of another field."""
        problem = "this verdict and this cause are no decision on this event"
        for row in self._rows.get((self._models.get(event), verdict, cause), ()):
            problem = describe_row_difference(row, get)
            if not problem:
                return ""
        return f"{event!r}, {verdict!r}, cause {cause!r}: {problem}"

    def fault(self, answer: object) -> str:
        """Return why plain data is not a decision of the daemon, or "" if it is one."""
        problem = self._find_shape_fault(answer, "decision")
        if not problem and is_deeper(answer, self.depth - 1):  # the message itself is a level
            problem = f"it is nested deeper than {self.depth} levels"
        if problem or not is_object(answer):
            return problem
        fields: dict[str, Any] = answer
        return self.misfit(fields["event"], fields["verdict"], fields["cause"], fields.get)

    def _find_shape_fault(self, value: object, kind: str) -> str:
        if not is_object(value):
            return f"the {kind} is not an object"
        shape = self.shapes[kind]
        for key, word in shape["always"].items():
            if key not in value:
                return f"its {key} is missing"
            if not self._fits(value[key], word):
                return f"its {key} is not of the type {word!r}"
        for key, word in shape["sometimes"].items():
            if key in value and not self._fits(value[key], word):
                return f"its {key} is not of the type {word!r}"
        return ""

    def _fits(self, value: object, word: str) -> bool:
        if word.endswith("?"):
            return value is None or self._fits(value, word[:-1])
        match word:
            case "any":
                return True
            case "text":
                return isinstance(value, str)
            case "flag":
                return isinstance(value, bool)
            case "integer":
                return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER
            case "number":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "object":
                return is_object(value)
            case "head":
                return not self._find_shape_fault(value, word)
            case "outcomes":
                return is_list(value) and not any(self._find_shape_fault(outcome, "outcome") for outcome in value)
            case "decisions":
                return is_list(value) and not any(map(self.fault, value))
            case _:  # texts, objects
                return is_list(value) and all(self._fits(item, word[:-1]) for item in value)
