"""The sources that are part of hooklatch or of one of its products, and their differences from a user's source.

Everything else treats them as any other source.
"""

from __future__ import annotations

import msgspec

from hooklatch_worker.wire import Source

__all__ = ["SHELL", "BuiltinSource"]


class BuiltinSource(msgspec.Struct, frozen=True):
    """A source of ours.  Only such a source may send telemetry with its answers.

    Without `is_total_bounded` the programs that its workers start may take the memory that they need.
    """

    source: Source
    function: str
    may_emit: bool = False
    is_total_bounded: bool = True


SHELL = BuiltinSource(Source("module", "hooklatch_worker.runtime.shell_runner"), "run")
