"""Paths as guards compare them: one type, which every path of a guard goes through.  Knows commands, no policy."""

from __future__ import annotations

from hooklatch.guards.paths.links import identity_of
from hooklatch.guards.paths.paths import HOMES, STREAMS, Path, Paths, own_home
from hooklatch.guards.paths.patterns import is_match, may_be, parts_of, together

__all__ = ["HOMES", "STREAMS", "Path", "Paths", "identity_of", "is_match", "may_be", "own_home", "parts_of", "together"]
