"""Which isolation each source gets, and whether one is as strong as another.  Knows levels; knows no kernel.

The operator's files may make a source stricter than [isolation] says, or weaker.  A project's may only make it
stricter: it does not decide over the user's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hooklatch.core.hooks.builtin_sources import LSP
from hooklatch.processes.pool import Pool
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch_worker.wire import ISOLATION_LEVELS, Isolation

__all__ = ["as_strong_as", "levels_of", "shortfalls"]


def levels_of(
    configs: Iterable[FileConfig], is_operators: Callable[[str], bool], default: str, lsp: str
) -> dict[str, str]:
    """Return the level of each source that has one of its own; of several that are named, the strongest counts."""
    levels = {LSP.source.location: lsp}
    for config in configs:
        for entry in config.sources:
            named = entry.isolation
            if named is None:
                continue
            if not is_operators(config.path):
                named = strongest(named, default)
            levels[entry.location] = strongest(named, levels.get(entry.location, named))
    return levels


def strongest(*levels: str) -> str:
    return max(levels, key=ISOLATION_LEVELS.index)


def as_strong_as(held: Isolation, wanted: Isolation) -> bool:
    """Return whether a worker that was started under `held` may do nothing that `wanted` refuses."""
    return (
        strongest(held.level, wanted.level) == held.level
        and set(held.write) <= set(wanted.write)
        and set(held.read) <= set(wanted.read)
        and held.network <= wanted.network
    )


def shortfalls(pools: Mapping[str, Pool]) -> list[Diagnostic]:
    """Name the sources whose workers are isolated less than configured."""
    return [
        Diagnostic(
            location, 0,
            f"its workers are to be {now.configured}, and only {now.in_force} is wholly in force; this kernel lacks "
            f"{'; '.join(now.missing)}",
        )
        for location, pool in pools.items()
        if (now := pool.isolation).missing
    ]  # fmt: skip
