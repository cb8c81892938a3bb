"""Paths as guards compare them: one type, which every path of a guard goes through.  Knows commands, no policy."""

from __future__ import annotations

from hooklatch.guards.paths.paths import HOMES, STREAMS, PathResolver, PlacedPath, find_file_identity, find_own_home
from hooklatch.guards.paths.patterns import find_wide_together, is_match, may_be, split_parts

__all__ = [
    "HOMES", "STREAMS", "PlacedPath", "PathResolver", "find_file_identity", "is_match", "may_be",
    "find_own_home", "split_parts",
    "find_wide_together",
]  # fmt: skip
