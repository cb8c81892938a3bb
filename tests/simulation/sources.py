"""The files of hooks in the simulated world.  Each function does what the payload says under its name, and says who it
is.
"""

from __future__ import annotations

__all__ = ["BROKEN", "CONFIG", "FAILING", "GUARDS", "REFUSING", "source_text"]

FAILING = {
    "raise": "crash",
    "exit": "crash",
    "hang": "timeout",
    "garbage": "protocol",
    "forge": "protocol",
    "twice": "protocol",
    "illegal": "protocol",
    "drop": "crash",
}
REFUSING = {"deny", "halt", *FAILING}
GUARDS = ("a", "b")  # the operator's files with a gate's guard each
BROKEN = "def (\n"

HEAD = """
import os, sys, time
from hooklatch_worker import wire
from hooklatch_worker import allow, amend, ask, deny, halt, hook

VERSION = {version}

def forge(count, shift):
    # It answers in the worker's stead: with another id, or twice at once.
    frame, found = sys._getframe(), {{}}
    while frame is not None:
        for name in ("call", "connection"):
            if name in frame.f_locals:
                found.setdefault(name, frame.f_locals[name])
        frame = frame.f_back
    answered = wire.CallAnswered(found["call"].generation, found["call"].call_id + shift, b"")
    found["connection"].sendall(wire.encode_frame(answered) * count)
    time.sleep(0.05)

def act(event, name):
    do = (event.payload.get("do") or {{}}).get(name, "pass")
    said = f"{{name}} {{event.payload.get('nonce')}} v{{VERSION}}"
    what, _, value = do.partition(":")
    if what == "slow":
        time.sleep(float(value))
    if what == "print":
        print("x" * 1000)
    if what == "raise":
        raise ValueError(said)
    if what == "exit":
        os._exit(3)
    if what == "hang":
        time.sleep(1e6)
    if what == "garbage":
        return 5
    if what == "forge":
        forge(1, 1)
    if what == "twice":
        forge(2, 0)
    if what == "mark":
        return amend(tool_input={{**event.payload["tool_input"], "marked": said}})
    if what in ("deny", "halt", "ask", "allow"):
        return dict(deny=deny, halt=halt, ask=ask, allow=allow)[what](said)
    return None
"""
GUARD = """
@hook("pre_tool_use")
def {name}(event):
    return act(event, "{name}")
"""
NOTIFIED = """
@hook("post_tool_use")
def {name}(event):
    act(event, "{name}")
"""
AMENDING = """
@hook("tool_result")
def {name}(event):
    do = (event.payload.get("do") or {{}}).get("{name}", "pass")
    if do == "mark":
        return amend(tool_response={{"marked": f"{name} {{event.payload.get('nonce')}} v{{VERSION}}"}})
    return act(event, "{name}")
"""
COUNTING = """
@hook("pre_tool_use", match="Count")
def {name}(event):
    total = event.state.increment("n", once=True)
    return deny(f"{name} {{event.payload.get('nonce')}} v{{VERSION}} {{total}}")
"""
CALLED = """
def called(event):
    return act(event, event.config["id"])
"""
KINDS = {"a": GUARD, "b": GUARD, "n": NOTIFIED, "t": AMENDING, "c": COUNTING, "p": GUARD, "s": CALLED}

CONFIG = """
[record]
segment_mib = {segment}
segment_hours = 0.02
keep_mib = {keep}

[state]
kept = {kept}

[ask]
wait = 15

[workers]
workers = {workers}
calls = {calls}
"""


def source_text(name: str, version: int) -> str:
    """Return the source of a file in one version."""
    return HEAD.format(version=version) + KINDS[name].format(name=name)
