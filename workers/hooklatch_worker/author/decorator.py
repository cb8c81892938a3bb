"""The `@hook` marker, which records a function's events on it, and changes nothing else about it.

The stub beside this module has the argument and the answers of a hook of each event, for type checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Literal

from msgspec.structs import replace

from hooklatch_worker.author import ledger
from hooklatch_worker.author.marker import (
    BOTH,
    MarkedEvent,
    validate_config,
    validate_events,
    validate_files,
    validate_flag,
    validate_hook_timeout,
    validate_match,
    validate_priority,
    validate_runtime,
    validate_text,
    validate_where,
)

__all__ = ["hook"]

OPTIONS = tuple(name for name in MarkedEvent.__struct_fields__ if name != "event")

# From inspect, whose import would take longer than this whole module.
CO_VARARGS, CO_GENERATOR, CO_ASYNC_GENERATOR = 0x04, 0x20, 0x200


def hook(
    event: str | list[str] | None = None,
    *,
    match: str | list[str] | Mapping[str, object] | None = None,
    where: Mapping[str, object] | None = None,
    id: str | None = None,  # noqa: A002 - the setting's name everywhere
    priority: int = 100,
    timeout: float | None = None,
    description: str = "",
    enabled: bool = True,
    observe: bool = False,
    optional: bool = False,
    amends: bool = False,
    only_judges: bool = False,
    config: dict[str, Any] | None = None,
    runtime: Literal["trio", "asyncio"] = "trio",
    files: list[str] | tuple[str, ...] = (),
    **unknown: object,
) -> Callable[[Any], Any]:
    """Mark a `def` or `async def` as a hook of `event`, or of each event in a list.  Markers stack.

    The function takes one event and returns None (no opinion) or a verdict that the event allows.  `where` selects the
    inputs for which it is called; `timeout` is in seconds; `runtime` is that of an `async def`; `files` names data
    beside the file, which is then a part of its build.  On a gate, a hook that `amends` runs before the guards,
    which judge its changes, and one that `only_judges` may run at the same time as others that do.

    Raises:
        TypeError: an argument has the wrong type, or the decorated object is not a plain function.
        ValueError: an argument is out of range, or two contradict each other.
    """
    for option in unknown:
        raise TypeError(f"@hook has no option {option!r}{suggest_option(option)}")
    settings = MarkedEvent(
        event="",
        match=validate_match(match),
        where=validate_where(where),
        id=id if id is None else validate_text("id", id),
        priority=validate_priority(priority),
        timeout=validate_hook_timeout(timeout),
        description=validate_text("description", description, may_be_empty=True),
        enabled=validate_flag("enabled", enabled),
        observe=validate_flag("observe", observe),
        optional=validate_flag("optional", optional),
        amends=validate_flag("amends", amends),
        only_judges=validate_flag("only_judges", only_judges),
        config=validate_config(config),
        runtime=validate_runtime(runtime),
        files=validate_files(files),
    )
    if settings.amends and settings.only_judges:
        raise ValueError(BOTH)
    markers = tuple(replace(settings, event=name) for name in validate_events(event))

    def mark(function: Any) -> Any:
        if not isinstance(function, FunctionType):
            raise TypeError(f"@hook marks a def or an async def, not a {type(function).__name__!r}")
        if function.__code__.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR):
            raise TypeError(f"{function.__name__} yields, so it cannot return a verdict")
        if fault := find_parameter_fault(function):
            raise TypeError(f"{function.__name__} {fault}; write: def {function.__name__}(event)")
        own = tuple(replace(marker) for marker in markers)  # separate markers for each use of one @hook(...)
        ledger.note_mark(function, own)
        # Decorators apply from the bottom up, but markers are listed from the top down.
        earlier = getattr(function, "__hooklatch_markers__", ())
        function.__dict__["__hooklatch_markers__"] = (*own, *earlier)
        if decorator is not None:
            decorator.is_applied = True
        return function

    decorator = ledger.expect_decorator(mark)
    return mark


def find_parameter_fault(function: FunctionType) -> str:
    """Return why a function cannot be called with one event; empty if it can."""
    code, defaults, of_names = function.__code__, function.__defaults__ or (), function.__kwdefaults__ or {}
    by_place = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    needed = [*by_place[1 : len(by_place) - len(defaults)], *(name for name in by_name if name not in of_names)]
    if not code.co_argcount and not code.co_flags & CO_VARARGS:
        return "takes no parameter, and a hook is called with the event"
    return f"takes {', '.join(needed)} too, and a hook is called with the event alone" if needed else ""


def suggest_option(option: str) -> str:
    from difflib import get_close_matches  # imported here, since it is only needed after a mistake

    nearest = get_close_matches(option, OPTIONS, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; it takes {', '.join(OPTIONS)}"
