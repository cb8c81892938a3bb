"""Paths as guards compare them: one type, which every path of a guard goes through.  Knows commands, no policy."""

from __future__ import annotations

from hooklatch.guards.paths.links import same_file
from hooklatch.guards.paths.paths import HOMES, STREAMS, Path, Paths, own_home
from hooklatch.guards.paths.patterns import is_match, may_be, parts_of, together

__all__ = ["HOMES", "STREAMS", "Path", "Paths", "is_match", "may_be", "own_home", "parts_of", "same_file", "together"]
