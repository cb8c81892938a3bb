"""The sources that are part of hooklatch, with the function that runs and their differences from a user's source.

Everything else treats them as any other source.
"""

from __future__ import annotations

import msgspec

from hooklatch_worker.wire import Source

__all__ = ["BUILTIN_SOURCES", "LSP", "SHELL", "BuiltinSource"]


class BuiltinSource(msgspec.Struct, frozen=True):
    """A source of ours.  Only such a source may send telemetry with its answers.

    Without `is_total_bounded` the programs that its workers start may take the memory that they need.
    """

    source: Source
    function: str
    may_emit: bool = False
    is_total_bounded: bool = True


SHELL = BuiltinSource(Source("module", "hooklatch_worker.runtime.shell_runner"), "run")
# Language servers take the memory that the project needs.
LSP = BuiltinSource(
    Source("module", "hooklatch_worker.lsp.diagnostics"), "diagnose", may_emit=True, is_total_bounded=False
)
BUILTIN_SOURCES = {builtin.source: builtin for builtin in (SHELL, LSP)}
