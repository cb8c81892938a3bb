"""All that a hook's author writes with: the marker, the verdicts and the events.  Needs msgspec alone."""

from hooklatch_worker.composition import chain, composite, when
from hooklatch_worker.events import CustomEvent, Event
from hooklatch_worker.markers import hook
from hooklatch_worker.state import Scope, State, StateError
from hooklatch_worker.verdicts import (
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
