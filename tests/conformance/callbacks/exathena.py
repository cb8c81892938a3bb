"""Hooks of the ExAthena rows, as they are written here; what each shall say stands in its config."""

from typing import Any

from hooklatch import amend, append, context, deny, halt, inject


def fine(event: Any) -> object:
    return None


def crash(event: Any) -> object:
    raise RuntimeError("broken")


def no(event: Any) -> object:
    return deny(event.config.get("reason", "not this"))


def halts(event: Any) -> object:
    return halt(event.config.get("reason", "stop here"))


def halts_at_one(event: Any) -> object:
    return halt("enough") if event.iteration == 1 else None


def halts_when_stalled(event: Any) -> object:
    return halt("stalled") if event.unproductive_iterations >= 2 else None


def augments(event: Any) -> object:
    return append(event.config["text"])


def injects(event: Any) -> object:
    return inject({"role": "system", "content": "Current ticket: ENG-1234", "name": "ticket-context"})


def expands_macros(event: Any) -> object:
    return amend(prompt="Deploy the staging branch.") if event.prompt.startswith("/deploy") else None


def adds_the_ticket(event: Any) -> object:
    return amend(prompt=f"For ENG-1234: {event.prompt}")


def tells(event: Any) -> object:
    return context(told={**event.payload, "session": event.session_id, "parent": event.parent_session_id})
