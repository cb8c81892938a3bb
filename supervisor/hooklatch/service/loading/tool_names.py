"""The tools that known hosts have, and the names in hooks that no such tool has.

A user may have tools of their own, so this is a note for the author of a hook, and refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch.core.hooks.matchers import Matcher
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.payload import Payload
from hooklatch.core.text import suggest_name
from hooklatch.shelltext.tools import NAMES
from hooklatch_worker.author.tools import KINDS, find_tool_kind_by_name

if TYPE_CHECKING:
    from hooklatch.core.hooks.conditions import CompiledWhere

__all__ = ["list_unknown_tools"]


def list_unknown_tools(hook: Hook, spec: EventSpec | None) -> tuple[str, ...]:
    """Return a note for each name or pattern of a hook that no known tool has."""
    return describe_unknown_names(hook) if spec is not None and spec.match == "tool_name" else ()


@lru_cache(maxsize=4096)
def describe_unknown_names(hook: Hook) -> tuple[str, ...]:
    return (*check_matcher(hook.matcher), *(check_where(hook.where) if hook.where is not None else ()))


def check_matcher(matcher: Matcher) -> Iterator[str]:
    for name in sorted(matcher.names - NAMES - KINDS):
        if not is_of_server(name):
            yield f"no tool that is known is called {name!r}{suggest_name(name, NAMES | KINDS)}"
    for name in sorted((matcher.names & NAMES) - KINDS):
        others = {other for other in NAMES if other.lower() == name} - matcher.names - {name}
        if others:  # in small letters a name is one agent's alone, though it looks like everybody's
            kind = find_tool_kind_by_name(name)
            yield f"{name!r} is not {min(others)!r}, as other agents call it; write {kind!r} for the tools of all"
    is_pattern = not (matcher.matches_all or matcher.names)
    if is_pattern and not is_of_server(matcher.text) and not any(map(matcher.matches, NAMES)):
        yield f"no tool that is known matches {matcher.text}"


def check_where(where: CompiledWhere) -> Iterator[str]:
    """Yield the same notes for the conditions on the tool's name."""
    alternatives = [
        alternative
        for condition in where.conditions
        if condition.names == ("tool_name",)
        for alternative in condition.alternatives
    ]
    facts = where.read(Catalogue.standard()["pre_tool_use"], Payload(b"{}"), None)
    source = where.source.get("tool_name")
    written = cast("list[object]", source) if isinstance(source, list) else [source]
    for alternative, text in zip(alternatives, written, strict=False):
        pattern = next(iter(cast("Mapping[str, object]", text).values())) if isinstance(text, Mapping) else text
        if not is_of_server(str(pattern)) and not any(alternative.may_hold(name, facts) for name in NAMES):
            near = suggest_name(text, NAMES) if isinstance(text, str) else ""
            yield f"no tool that is known is called {pattern!r}, as where says{near}"


def is_of_server(text: str) -> bool:
    """Return whether a name or a pattern may be about tools of servers, of which there is no list."""
    return "mcp" in text.lower()
