"""The losses that a reload may take: hooks that are gone and were not edited out.  Pure; knows names alone.

the watch, SIGHUP, a start           nothing
a plain reload                       what files that are there do not hold any more
a reload that accepts removals       that, and all that has vanished
the removal of a hook by its name    the one place that declared it, and has vanished
"""

from __future__ import annotations

import msgspec

__all__ = ["EVERYTHING", "LESS", "NOTHING", "REMOVAL", "LossAcceptance"]

REMOVAL = "hooklatch reload --accept-removed"


class LossAcceptance(msgspec.Struct, frozen=True):
    """The losses that the caller of a reload accepts: files that hold `less`, and `removed` files and plugins.

    A plugin's name is its key; None stands for every name.
    """

    less: bool = False
    removed: frozenset[str] | None = frozenset()

    def takes(self, name: str) -> bool:
        """Return whether a vanished file or plugin may be taken for removed."""
        return self.removed is None or name in self.removed


NOTHING, LESS, EVERYTHING = LossAcceptance(), LossAcceptance(less=True), LossAcceptance(less=True, removed=None)
