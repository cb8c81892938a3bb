"""The exit codes of errors of a fleet."""

from __future__ import annotations

import importlib

from hooklatch.cli.fleet.access import CODES
from hooklatch.fleet.engine.engine import EngineError
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.signing import NoLibraryError


def test_each_exit_code_is_of_an_error_that_there_is() -> None:
    names: set[str] = set()
    kinds: list[type[Exception]] = [EngineError, FleetError, NoLibraryError]
    for module in ("folder", "publisher", "restoring", "rollout", "versions"):
        importlib.import_module(f"hooklatch.fleet.publishing.{module}")
    while kinds:
        kind = kinds.pop()
        names.add(kind.__name__)
        kinds += kind.__subclasses__()

    assert set(CODES) <= names
