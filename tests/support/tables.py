"""Tables of which each row is one assertion: a single case runs them all, and names each row that fails.

Collecting, sending and reporting a case costs more than such a row does.  What starts a process or tells a story of
its own stays a case: `pytest.mark.parametrize`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

__all__ = ["table"]


def table(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each row, with arguments named and rows given as `pytest.mark.parametrize` takes them.

    An empty table fails: it would hold nothing.  Every row runs, also behind one that fails.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = [(row,) if len(columns) == 1 else tuple(row) for row in rows]
    labels = [" ".join(str(ids(value)) for value in row) for row in values] if callable(ids) else list(ids or ())

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_each_row(**fixtures: Any) -> None:
            assert values, "the table has no row"
            failures: list[BaseException] = []
            for number, row in enumerate(values):
                arguments = dict(zip(columns, row, strict=True))
                try:
                    test(**fixtures, **arguments)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"row {number}: {labels[number] if labels else arguments}")
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(values)} rows", failures)

        given = inspect.signature(test)
        kept = [parameter for name, parameter in given.parameters.items() if name not in columns]
        run_each_row.__signature__ = given.replace(parameters=kept)  # type: ignore[attr-defined]
        return run_each_row

    return decorate
