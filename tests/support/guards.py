"""A guard that refuses every tool, where a test wants it after a while, and a hook that only listens."""

from __future__ import annotations

__all__ = ["FILES", "WAITING"]

WAITING = """
import os, time
from hooklatch import deny, hook

@hook("pre_tool_use")
def judge(event):
    while event.tool_name == "Slow" and not os.path.exists(event.tool_input["until"]):
        time.sleep(0.002)
    return deny("no")

@hook("notification")
def hear(event): ...
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": WAITING}
