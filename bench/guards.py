"""The callbacks of the benchmarks: the guard that every contender calls, and others that compute, report and block."""

import os
import shlex
import time
from types import SimpleNamespace
from typing import Any

import msgspec

from hooklatch import amend, deny, hook, warn


@hook("pre_tool_use", match="Bash")
def no_force_push(event: Any) -> Any:
    if "push --force" in event.tool_input["command"]:
        return deny("force pushes are not allowed here")
    return None


@hook("pre_tool_use", match="Work")
def read_commands(event: Any) -> Any:
    """Cost as much as a guard that parses a script: at least half a millisecond of CPU time."""
    for line in event.tool_input["script"].splitlines():
        if shlex.split(line)[:2] == ["rm", "-rf"]:
            return deny("name the files to remove")
    return None


@hook("pre_tool_use", match="WhoAmI")
def tell_pid(event: Any) -> Any:
    return warn(str(os.getpid()))


@hook("pre_tool_use", match="Sleep", timeout=600.0)
def sleep(event: Any) -> Any:
    time.sleep(event.tool_input["seconds"])


@hook("pre_tool_use", match="Spin", timeout=600.0)
def spin(event: Any) -> Any:
    """Compute for as long as is asked: by the thread's own processor time, so that a busy machine changes nothing."""
    end = time.thread_time() + event.tool_input["seconds"]
    while time.thread_time() < end:
        pass


@hook("pre_tool_use", match="Amend")
def shorten(event: Any) -> Any:
    return amend(tool_input={**event.tool_input, "timeout": 1000})


def judge(payload: bytes) -> str | None:
    """Call the guard in a pool's worker: what a fire does there, and nothing around it."""
    verdict = no_force_push(SimpleNamespace(**msgspec.json.decode(payload)))
    return None if verdict is None else verdict.reason
