"""What a program tells its model, and what the model says next, whatever the wire.  Knows no wire, socket or host.

A play is a list of turns, a turn a list of tool calls.  The first words of a conversation name its play, as in
`[play:main]`, and the ids of its calls say how far it is: nothing is remembered between requests, and a repeated
request changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Call", "Conversation", "Reply", "Turn", "call_id", "next_reply", "opening", "play_in"]

_PLAY = re.compile(r"\[play:(\w+)\]")
_ID = re.compile(r"call_(\w+)_(\d+)_(\d+)")
NOTHING_TO_SAY = "All done."


class Call(NamedTuple):
    """One tool call of the model, in the host's own words."""

    tool: str
    input: dict[str, Any]


Turn = Sequence[Call]  # what the model calls at once


@dataclass(frozen=True)
class Conversation:
    """One request: the play that it belongs to, the turns played so far, and each call's result by its id."""

    play: str | None
    turns: int
    has_tools: bool
    told: dict[str, str] = field(default_factory=dict)


class Reply(NamedTuple):
    """What the model says: text, or calls with their ids."""

    text: str
    calls: Sequence[tuple[str, Call]]


def opening(play: str) -> str:
    """Return the first message of a conversation that follows `play`."""
    return f"[play:{play}] Please do it."


def play_in(texts: Iterable[str]) -> str | None:
    """Return the play that the first message which names one names."""
    return next((found[1] for text in texts if (found := _PLAY.search(text))), None)


def call_id(play: str, turn: int, index: int) -> str:
    """Return the id of a call: it says where in the play it was made."""
    return f"call_{play}_{turn}_{index}"


def turns_of(ids: Iterable[str]) -> int:
    """Return how many turns with calls have been played, told by the ids of the calls in the conversation."""
    return max((int(found[2]) + 1 for each in ids if (found := _ID.fullmatch(each))), default=0)


def next_reply(plays: dict[str, list[Turn]], conversation: Conversation) -> Reply:
    """Return the next turn of the conversation's play; some words where it has ended, or where it has none."""
    turns = plays.get(conversation.play or "", []) if conversation.has_tools else []
    if conversation.turns >= len(turns):
        return Reply(NOTHING_TO_SAY, ())
    turn = turns[conversation.turns]
    return Reply("", [(call_id(conversation.play or "", conversation.turns, n), call) for n, call in enumerate(turn)])
