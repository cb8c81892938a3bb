"""The callbacks of the benchmarks: one guard that every contender calls, and two that show and hold a worker."""

import os
import time
from typing import Any

from hooklatch import deny, hook, warn


@hook("pre_tool_use", match="Bash")
def no_force_push(event: Any) -> Any:
    if "push --force" in event.tool_input["command"]:
        return deny("force pushes are not allowed here")
    return None


@hook("pre_tool_use", match="WhoAmI")
def tell_pid(event: Any) -> Any:
    return warn(str(os.getpid()))


@hook("pre_tool_use", match="Sleep", timeout=600.0)
def sleep(event: Any) -> Any:
    time.sleep(event.tool_input["seconds"])
