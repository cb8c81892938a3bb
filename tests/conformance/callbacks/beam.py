"""Hooks of the BeamAgent rows, as they are written here; what each shall say stands in its config."""

import os
from typing import Any

from hooklatch import amend, ask, context, deny


def fine(event: Any) -> object:
    return None


def no(event: Any) -> object:
    return deny(event.config.get("reason", "no"))


def perhaps(event: Any) -> object:
    return ask(event.config.get("reason", "really?"))


def crash(event: Any) -> object:
    raise RuntimeError("broken")


def throw(event: Any) -> object:
    raise SystemExit("thrown")


def die(event: Any) -> object:
    os.abort()


def odd(event: Any) -> object:
    return {"whatever": True}


def adds(event: Any) -> object:
    return context(**event.config)


def looks(event: Any) -> object:
    return context(seen=sorted(event.context))


def trail(event: Any) -> object:
    return context(trail=[*event.context.get("trail", []), event.config["name"]])


def tells(event: Any) -> object:
    return context(told={"session": event.session_id, "event": event.event, **event.payload})


def prefixes(event: Any) -> object:
    return amend(prompt=f"[{event.config.get('with', 'checked')}] {event.prompt}")


def says_what_it_is_given(event: Any) -> object:
    return deny(event.tool_input["reason"])
