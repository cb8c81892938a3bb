"""hooks show, and how it is found: from the text of a refusal to the line that failed.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import pytest

from support.commands import Place, serving

pytestmark = pytest.mark.slow


def test_a_denial_is_followed_from_its_message_to_the_authors_line(place: Place) -> None:
    with serving(place):
        fires = [place.fire_tool("Crash") for _ in range(5)]
        shown = place.run("hooks", "show", "guards:judge")
        unknown = place.run("hooks", "show", "guards:jugde")
        status, doctor = place.run("status"), place.run("doctor")
        decision_id = str(
            place.json("hooks", "show", "global/guards:judge")["hooks"][0]["last_failures"][0]["decision_id"]
        )
        log = place.run("log", "--decision", decision_id)
        place.run("hooks", "disable", "guards:judge")
        mended = place.json("status")

    assert f"to follow it: hooklatch log --decision {decision_id}\n" in fires[-1].stdout
    assert shown.returncode == 0
    assert f"declared in {place.config.parent}/guards.py:4\n" in shown.stdout
    assert "crash 5" in shown.stdout
    assert "  ValueError: a bug of the guard (guards.py:14)\n    Traceback (most recent call last):\n" in shown.stdout
    assert f'    File "{place.config.parent}/guards.py", line 14, in judge\n' in shown.stdout
    assert shown.stdout.count("Traceback") == 1
    assert shown.stdout.count("as above") == 4
    assert f"hooklatch log --decision {decision_id}\n" in shown.stdout
    assert (unknown.returncode, unknown.stdout) == (66, "")
    assert "did you mean 'guards:judge'?" in unknown.stderr
    assert status.returncode == 1
    assert "wrong       global/guards:judge failed in each of its last 5 calls (cause crash)" in status.stdout
    assert "hooklatch hooks show global/guards:judge\n" in status.stdout
    assert (mended["health"], mended["failing"]) == ("green", [])
    assert doctor.returncode == 1
    assert "failed in each of its last 5 calls (cause crash)" in doctor.stdout
    assert log.returncode == 0
    assert "asked     global/guards:judge failed (crash: ValueError: a bug of the guard (guards.py:14))" in log.stdout


PRINTS = """
import sys
from hooklatch import hook

@hook("pre_tool_use")
def prints(event):
    print("to one stream")
    print("to the other", file=sys.stderr)
    raise KeyError("oops")
"""


def test_what_a_hook_printed_before_it_failed_is_shown(place: Place) -> None:
    place.write({"hooks.toml": '[[source]]\npath = "prints.py"\n', "prints.py": PRINTS})

    with serving(place):
        place.fire_tool("Bash")
        shown = place.run("hooks", "show", "prints")

    assert "    to one stream\n    to the other\n    Traceback (most recent call last):\n" in shown.stdout
    assert "    KeyError: 'oops'\n" in shown.stdout
