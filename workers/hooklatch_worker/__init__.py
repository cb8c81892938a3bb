"""The API for hook authors: the marker, the verdicts and the events.  Needs msgspec only."""

from hooklatch_worker.author.composition import chain, composite, when
from hooklatch_worker.author.decorator import hook
from hooklatch_worker.author.events import CustomEvent, Event
from hooklatch_worker.author.state import Scope, State, StateError
from hooklatch_worker.author.verdicts import (
    Verdict,
    allow,
    amend,
    append,
    ask,
    claim,
    context,
    deny,
    halt,
    inject,
    last,
    resume,
    warn,
)

__all__ = [
    "hook",
    "CustomEvent",
    "Event",
    "Scope",
    "State",
    "StateError",
    "Verdict",
    "allow",
    "amend",
    "append",
    "ask",
    "chain",
    "claim",
    "composite",
    "context",
    "deny",
    "halt",
    "inject",
    "last",
    "resume",
    "warn",
    "when",
]
