"""The product of language servers: the table [lsp], and the built-in hook that shows their diagnostics after an edit.

The hook is `diagnose` of `hooklatch_worker.lsp.diagnostics`, in a worker that keeps the servers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hooklatch.core.hooks.builtin_sources import BuiltinSource
from hooklatch.core.hooks.definitions import HookDefinition
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.service.config.settings import Level, MainTable, TableEffect
from hooklatch_worker.lsp import diagnostics
from hooklatch_worker.wire import Source

__all__ = ["SOURCE", "TABLE", "LspTable", "read_lsp"]

MARGIN = 1.0  # seconds more than its server has: the hook answers nothing before its worker would be killed
# Language servers take the memory that the project needs.
SOURCE = BuiltinSource(Source("module", diagnostics.__name__), "diagnose", may_emit=True, is_total_bounded=False)


class LspTable(diagnostics.Config, frozen=True, forbid_unknown_fields=True):
    """[lsp]: the built-in hook that shows a language server's diagnostics, and how its servers are isolated."""

    isolation: Level = "standard"


def read_lsp(table: LspTable, folder: str) -> TableEffect:
    """Return the built-in hook, unless it is off.

    Language servers write caches in places of their own, so [isolation] does not apply to them.
    """
    if not table.enabled:
        return TableEffect()
    config: dict[str, Any] = {name: getattr(table, name) for name in diagnostics.Config.__struct_fields__}
    hook = HookDefinition(
        id="lsp",
        event="post_tool_use",
        matcher=compile_matcher(list(diagnostics.TOOLS)),
        run=f"{SOURCE.source.location}:{SOURCE.function}",
        timeout=table.timeout + MARGIN,
        description="a language server's diagnostics after an edit",
        config=msgspec.json.encode(config),
    )
    return TableEffect(hooks=[hook], levels={SOURCE.source.location: table.isolation})


TABLE = MainTable(LspTable, read_lsp)
