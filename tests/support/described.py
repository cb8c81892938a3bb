"""Holds what commands print with `--json` to its schema, and to no more: a key that nobody described fails."""

from __future__ import annotations

import functools
from typing import Any

from jsonschema import Draft202012Validator

from hooklatch.cli.schema import find_schema

__all__ = ["check"]


def check(command: str, said: object) -> None:
    """Assert that a value is what the schema of a command says, and has no other key."""
    faults = list(validator(command).iter_errors(said))
    why = f"`{command} --json` differs from its shape in hooklatch/cli"
    assert not faults, f"{why}: {faults[0].message[:500]}"


@functools.cache
def validator(command: str) -> Draft202012Validator:
    found = find_schema(command)
    assert found is not None, f"there is no schema of {command}"
    return Draft202012Validator(strict(found))


def strict(schema: Any) -> Any:
    """Return a schema that forbids what it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    return {**closed, "additionalProperties": False} if "properties" in schema else closed
