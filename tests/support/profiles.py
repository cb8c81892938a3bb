"""How many examples a property is tried on: a few in `make test`, many with HOOKLATCH_HYPOTHESIS_PROFILE=soak.

The examples of `make test` are the same in each run; those of a soak are new ones.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

__all__ = ["FUZZING", "MODEL_FAST", "MODEL_REAL", "examples", "fuzzing"]

PROFILE = os.environ.get("HOOKLATCH_HYPOTHESIS_PROFILE", "ci")
FUZZING, MODEL_FAST, MODEL_REAL = 40, 150, 24  # examples in `make test`
PLAIN = 50  # of a property that says nothing of it
TIMES = {"ci": 1, "soak": 100}  # the same, multiplied


def register() -> None:
    """Make the profiles known and load the chosen one; with no database, since no run depends on an earlier one."""
    for name, is_same in (("ci", True), ("soak", False)):
        settings.register_profile(
            name,
            max_examples=PLAIN * TIMES[name],
            derandomize=is_same,
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
    settings.load_profile(PROFILE)


def examples(count: int) -> settings:
    """Return the settings of a property that is tried `count` times in `make test`."""
    return settings(max_examples=count * TIMES[PROFILE])


register()
fuzzing = examples(FUZZING)
