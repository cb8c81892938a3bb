"""Chaos for some seconds: processes are killed and stopped, files rewritten, and no promise is broken.

Slow: it runs for about fifteen seconds, since a daemon that is killed several times must come back each time.
`make soak` does the same for as long as one likes.  The seed is HOOKLATCH_CHAOS_SEED, or always the same.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.battle import fight
from chaos.faults import Nemesis
from support.daemons import nothing_left

SEED = int(os.environ.get("HOOKLATCH_CHAOS_SEED", "20261122"))
DECK = [
    "kill_worker", "stop_worker", "kill_zygote", "kill_client", "stop_client", "kill_daemon_and_tear", "stop_daemon",
    "restart_daemon", "rewrite_policy", "rewrite_shell", "rewrite_slowly", "start_with_empty_policy", "switch",
    "register", "change_project", "switch_and_die", "lose_the_zygote_in_a_change",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_chaos_breaks_no_promise(tmp_path: Path) -> None:
    def play(nemesis: Nemesis) -> None:
        nemesis.play(DECK)

    with nothing_left():
        battle = fight(SEED, play, keep=tmp_path / "battle")

    assert battle.violations == [], f"seed {SEED}, what is left of it is in {tmp_path}"
    assert set(battle.faults) == set(DECK)
    assert battle.by_policy > 150, battle
    assert battle.refused_for["policy"] > 20, battle
    assert sum(battle.refused_for.get(cause, 0) for cause in ("crash", "timeout", "load")) > 0, battle
    assert battle.refused_for["no_daemon"] > 0, battle
