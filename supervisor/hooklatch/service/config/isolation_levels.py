"""Which isolation level each source gets, and which of two levels is stricter.  Knows levels; does not know the kernel.

The operator's files may make a source stricter than [isolation] says, or weaker.  A project's files may only make it
stricter: a project does not decide over the user's files.
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
    """Return the level of each source that has its own; if several are named for a source, the strictest wins."""
    levels = {LSP.source.location: lsp}
    for config in configs:
        for table in config.sources:
            if table.isolation is None:
                continue
            location = table.source.location
            named = table.isolation if is_operators(config.path) else strongest(table.isolation, default)
            levels[location] = strongest(named, levels.get(location, named))
    return levels


def strongest(*levels: str) -> str:
    return max(levels, key=ISOLATION_LEVELS.index)


def as_strong_as(held: Isolation, wanted: Isolation) -> bool:
    """Return whether a worker started under `held` is denied everything that `wanted` denies."""
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
            f"its workers should be {now.configured}, but only {now.in_force} is fully active; this kernel lacks "
            f"{'; '.join(now.missing)}",
        )
        for location, pool in pools.items()
        if (now := pool.isolation).missing
    ]  # fmt: skip
