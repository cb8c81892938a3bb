"""People keep working: of everyday commands few are refused or asked about, and none of them without a reason."""

from __future__ import annotations

from guards.calls_of_tools import GUARDS, Event
from guards.everyday import EVERYDAY

MOST_REFUSED, MOST_ASKED = 0.02, 0.05


def answers(verdict: str) -> list[str]:
    """Return the commands for which the strictest answer of the guards is this one."""
    found: list[str] = []
    for text in EVERYDAY:
        said = {answer.verdict for guard in GUARDS if (answer := guard(Event(text))) is not None}
        if verdict == ("deny" if "deny" in said else "ask" if said else "pass"):
            found.append(text)
    return found


def test_few_everyday_commands_are_refused_or_asked_about() -> None:
    refused, asked = answers("deny"), answers("ask")

    assert len(set(EVERYDAY)) == len(EVERYDAY) > 400
    assert len(refused) <= MOST_REFUSED * len(EVERYDAY), refused
    assert len(asked) <= MOST_ASKED * len(EVERYDAY), asked
