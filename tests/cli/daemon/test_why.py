"""why: each cause and word that the daemon can report is explained, and no other."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from hooklatch.cli.commands import run
from hooklatch.cli.daemon.why import EXPLAINED
from hooklatch.core.health import WarningInputs
from hooklatch.core.messages import Cause, FindingReason, Mismatch
from support.described import check


def test_each_cause_and_each_word_of_the_status_is_explained() -> None:
    known = {*get_args(Cause), *get_args(Mismatch), *get_args(FindingReason), *WarningInputs.__struct_fields__}

    assert set(EXPLAINED) == known
    assert all(text.endswith(".") for texts in EXPLAINED.values() for text in texts)


def test_a_cause_is_one_paragraph_and_an_unknown_one_has_a_suggestion(capfd: pytest.CaptureFixture[str]) -> None:
    assert (run(["why", "crash"]), run(["why", "crsh"]), run(["why", "--json"]), run(["why"])) == (0, 66, 0, 0)
    out, err = capfd.readouterr()
    first, second, *table = out.splitlines()

    assert first == " ".join(EXPLAINED["crash"])
    assert "did you mean 'crash'?" in err
    check("why", json.loads(second))
    assert len(table) == len(EXPLAINED) + 1
