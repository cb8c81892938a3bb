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
    publishing = (f"publishing.{module}" for module in ("folder", "publisher", "restoring", "rollout", "versions"))
    for module in ("engine.archive", "logs.exporting", *publishing):
        importlib.import_module(f"hooklatch.fleet.{module}")
    while kinds:
        kind = kinds.pop()
        names.add(kind.__name__)
        kinds += kind.__subclasses__()

    assert set(CODES) <= names
