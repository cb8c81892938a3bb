"""What a person reads on the screens of the real programs, and what their models are told at the same moment.

Slow: each test is a program of some hundred megabytes at a terminal.  The screens are kept in screens/;
`python tests/real_hosts/screens.py` renews them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hooklatch.core.refusal_texts import START
from real_hosts.model.conversation import call_id
from real_hosts.screens import CASES, FOLDER, SCENES, kept_screen, play_screen, why_there_is_no_terminal
from real_hosts.theatre import Stage, on_stage, why_there_is_no_namespace
from support.survivors import nobody_survives

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    if reason := why_there_is_no_terminal() or why_there_is_no_namespace():
        pytest.skip(reason)
    with nobody_survives(), on_stage() as stage:
        yield stage


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SCENES)
def test_a_screen_shows_what_it_showed_before(stage: Stage, name: str, case: str) -> None:
    scene = SCENES[name]
    if reason := scene.host.program.why_not:
        pytest.skip(reason)
    kept = FOLDER / f"{name}.{case}.txt"
    if not kept.exists():
        pytest.skip(f"no screen of it is kept yet: python tests/real_hosts/screens.py {name}")

    screen, outcome = play_screen(scene, stage, case)

    assert kept_screen(screen) == kept.read_text(), screen
    told = outcome.told.get(call_id("main", 0, 0), "")
    if case == "deny":
        assert "refused by deny_guard" in told
    elif case == "raise":
        assert "failed: ValueError: a bug of raise_guard" in told
        assert "That is no judgement of this call" in told
    elif case == "no_daemon" and told:
        assert START in told
