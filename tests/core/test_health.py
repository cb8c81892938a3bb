"""The one definition of red and of yellow: each thing by itself, its word, and what to do."""

from __future__ import annotations

import msgspec
import pytest

from hooklatch.core.health import (
    DO_ABOUT,
    ActiveFaults,
    HealthInputs,
    WarningInputs,
    health_findings,
    health_warnings,
    health_word,
    is_vital_well,
)
from hooklatch.core.hooks.suspension import Suspension

SOUND = HealthInputs(
    is_draining=False, parts=[], listeners=[], is_zygote_alive=True, record=[], is_record_sound=True, isolation=[],
    files=[], hooks=[], faults=[], quarantined=[], failing=[], state=[], suspended=[], fleet=[], calls=[],
)  # fmt: skip
FULL = "the disk of /r is full, so gates are denied: make room there, and it goes on by itself"
PART = "the daemon's part 'pools' failed: it ended"

WRONG = [
    ({"parts": [PART]}, "parts", PART, "status --tree"),
    ({"listeners": ["clients cannot be accepted"]}, "parts", "clients cannot be accepted", "limit of open files"),
    ({"is_zygote_alive": False}, "zygote", "the zygote does not run", "status --tree"),
    ({"record": [FULL]}, "record", FULL, "log acknowledge"),
    ({"isolation": ["/h/guards.py: weaker"]}, "isolation", "/h/guards.py: weaker", "hooklatch reload"),
    ({"files": ["/h/hooks.toml:2: no key"]}, "files", "/h/hooks.toml:2: no key", "hooklatch reload"),
    ({"hooks": ["hook 'a': its source is gone"]}, "hooks", "hook 'a'", "hooklatch reload"),
    ({"faults": ["/s/state.json: it is no JSON"]}, "faults", "/s/state.json", "start the daemon again"),
    ({"quarantined": ["global/a b"]}, "quarantined", "global/a b is quarantined", "hooks enable 'global/a b'"),
    ({"failing": [("global/a b", 5)]}, "failing", "global/a b failed in each of its last 5 calls", "show 'global/a b'"),
    ({"state": ["what hooks remember is unreadable"]}, "state", "unreadable", "start the daemon again"),
    (
        {"suspended": [Suspension("global/a", 0, 1, "why")]},
        "suspended",
        "global/a is suspended: why",
        "resume global/a",
    ),
    ({"suspended": [Suspension(None, 0, 1, "why")]}, "suspended", "every hook is suspended", "resume --all"),
    ({"fleet": ["version 3 is refused"]}, "fleet", "version 3 is refused", "hooklatch link"),
    ({"calls": ["overruled: Bash ran"]}, "calls", "overruled: Bash ran", "log acknowledge"),
]


def test_a_sound_daemon_is_ready() -> None:
    assert (health_word(SOUND), health_findings(SOUND)) == ("ready", [])


@pytest.mark.parametrize(("change", "reason", "what", "do"), WRONG, ids=[f"{row[1]}-{row[3]}" for row in WRONG])
def test_each_thing_that_is_wrong_makes_it_red_with_its_word_and_what_to_do(
    change: dict[str, object], reason: str, what: str, do: str
) -> None:
    condition = msgspec.structs.replace(SOUND, **change)

    (found,) = health_findings(condition)

    assert health_word(condition) == "red"
    assert found["reason"] == reason
    assert what in found["what"]
    assert do in found["do"]


def test_every_field_of_the_condition_counts() -> None:
    named = {name for change, *_ in WRONG for name in change}

    assert named == {*HealthInputs.__struct_fields__} - {"is_draining", "is_record_sound"}


def test_one_that_leaves_says_so_whatever_is_wrong() -> None:
    leaving = msgspec.structs.replace(SOUND, is_draining=True, files=["broken"])

    assert health_word(leaving) == "draining"
    assert [one["reason"] for one in health_findings(leaving)] == ["files"]


@pytest.mark.parametrize(
    ("change", "is_well"),
    [
        ({}, True),
        ({"is_zygote_alive": False}, False),
        ({"record": ["it cannot be written"], "is_record_sound": False}, False),
        ({"record": ["an old fault that nobody has acknowledged"]}, True),
        ({"files": ["broken"], "parts": [PART]}, True),
    ],
)
def test_a_restart_is_called_for_where_no_gate_can_be_decided(change: dict[str, object], is_well: bool) -> None:
    condition = msgspec.structs.replace(SOUND, **change)

    assert any(one["is_vital"] for one in health_findings(condition)) is not is_well
    assert is_well is is_vital_well(
        is_zygote_alive=condition.is_zygote_alive, is_record_sound=condition.is_record_sound
    )


def test_a_condition_of_which_something_is_missing_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="is_draining"):
        HealthInputs()  # type: ignore[call-arg]


def test_a_fault_lasts_until_it_is_taken_back() -> None:
    faults = ActiveFaults()
    faults.report("metrics", "the port is in use")
    faults.report("state file", "broken", "twice")
    faults.report("metrics")

    assert list(faults) == ["broken", "twice"]


def test_all_that_is_yellow_says_what_to_do() -> None:
    assert {*DO_ABOUT} == {*WarningInputs.__struct_fields__}, "a line for each field, in core/health.py"
    assert all(DO_ABOUT.values())
    empty = dict.fromkeys(WarningInputs.__struct_fields__, ())

    assert health_warnings(WarningInputs(**empty)) == []
    for field in empty:
        assert health_warnings(WarningInputs(**{**empty, field: ["it"]})) == [
            {"reason": field, "what": "it", "do": DO_ABOUT[field]}
        ]
