"""The table by which clients read decisions is what the daemon's code gives."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import inspect

from clients.decision_table import COPIES, text
from hooklatch.client.protocol.decisions import TABLE, AnsweredDecision, HookOutcome


@pytest.mark.slow
def test_the_table_of_each_client_is_the_one_that_the_daemons_code_gives() -> None:
    """Slow: every kind of event is played with every pair of answers."""
    now = text()

    for copy in COPIES:
        assert copy.read_text() == now, f"{copy} is not up to date; run: python tests/clients/decision_table.py"


@pytest.mark.parametrize(("name", "kind"), [("decision", AnsweredDecision), ("outcome", HookOutcome)])
def test_what_the_python_client_reads_has_the_fields_of_the_table(name: str, kind: type[msgspec.Struct]) -> None:
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    always = {field.name for field in struct.fields if field.required}
    sometimes = {field.name for field in struct.fields if not field.required}
    shape = TABLE.shapes[name]

    assert (always, sometimes) == (shape["always"].keys(), shape["sometimes"].keys())
