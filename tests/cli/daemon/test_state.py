"""state accept: the way on for whoever has lost the state file, and nothing for anybody else."""

from __future__ import annotations

import re

import pytest

from support.commands import Place, serving


@pytest.mark.slow
def test_a_lost_state_denies_until_the_command_that_the_refusal_names_accepts_it(place: Place) -> None:
    """Slow, since two daemons start."""
    with serving(place):
        place.run(
            "hooks", "add", "pre_tool_use", "--run", str(place.config.parent / "guards.py:judge"), "--id", "added"
        )
        nothing = place.run("state", "accept")
    (path,) = place.folder.rglob("state.json")
    path.unlink()

    with serving(place):
        refused = place.fire_tool("Read")
        (command,) = {*re.findall(r"hooklatch (state accept)", refused.stdout)}
        accepted = place.json(*command.split())
        passed, status = place.fire_tool("Read"), place.run("status")

    assert nothing.stdout.startswith("the state is the one that was written last")
    assert refused.returncode == 4  # a deny that is no policy
    assert accepted["moved_to"] is None
    assert (passed.returncode, status.returncode) == (0, 0)
