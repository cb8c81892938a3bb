"""What a hook of the simulated world does: what the payload says under its name.  It says who it is, in its version."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from hooklatch_worker import allow, amend, ask, deny, halt, wire

__all__ = ["act", "count"]

VERDICTS = {"deny": deny, "halt": halt, "ask": ask, "allow": allow}


def say(event: Any, name: str, version: int) -> str:
    """Return the words of a hook, which name the question that they answer."""
    return f"{name} {event.payload.get('nonce')} v{version}"


def count(event: Any, name: str, version: int) -> object:
    """Count the fires of all, and allow with the total."""
    total = event.state.increment("n", once=True)
    return allow(f"{say(event, name, version)} {total}")


def act(event: Any, name: str, version: int) -> object:
    """Do what the payload says."""
    what, _, value = (event.payload.get("do") or {}).get(name, "pass").partition(":")
    said = say(event, name, version)
    match what:
        case "pass":
            return None
        case "slow":
            time.sleep(float(value))
        case "print":
            print("x" * 1000)
        case "raise":
            if value:
                print("x" * 1000)
            raise ValueError(said)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(1e6)
        case "garbage":
            return 5
        case "forge":
            forge(1, 1)
        case "twice":
            forge(2, 0)
        case "mark":
            field = "response" if event.event == "post_model" else "tool_input"
            return amend(**{field: {**event.payload[field], "marked": said}})
        case "unmarked":
            if value and "marked" in event.payload["tool_input"]:
                raise ValueError(said)
            return deny(said) if "marked" in event.payload["tool_input"] else None
        case "plain":
            return None if "marked" in event.payload["tool_input"] else ask(said)
        case _:
            return VERDICTS[what](said)
    return None


def forge(count: int, shift: int) -> None:
    """Answer in the worker's stead: with another id, or twice at once."""
    frame, found = sys._getframe(), dict[str, Any]()
    while frame is not None:
        for name in ("call", "connection"):
            if name in frame.f_locals:
                found.setdefault(name, frame.f_locals[name])
        frame = frame.f_back  # type: ignore[assignment]
    answered = wire.CallAnswered(found["call"].generation, found["call"].call_id + shift, b"")
    found["connection"].sendall(wire.encode_frame(answered) * count)
    time.sleep(0.05)
