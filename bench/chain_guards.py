"""The guards of chains.py: silent, refusing, amending, several in order, several at once, and slow ones."""

import time
from typing import Any

from hooklatch import amend, deny, hook

SLOW = 0.3  # seconds


@hook("pre_tool_use", match="silent", id="silent")
@hook("pre_tool_use", match="three in order", id="first-in-order")
@hook("pre_tool_use", match="three in order", id="second-in-order")
@hook("pre_tool_use", match="three in order", id="third-in-order")
@hook("pre_tool_use", match="three at once", id="first-at-once", only_judges=True)
@hook("pre_tool_use", match="three at once", id="second-at-once", only_judges=True)
@hook("pre_tool_use", match="three at once", id="third-at-once", only_judges=True)
def say_nothing(event: Any) -> Any:
    return None


@hook("pre_tool_use", match="denied")
def refuse(event: Any) -> Any:
    return deny("not here")


@hook("pre_tool_use", match="amended")
def change(event: Any) -> Any:
    return amend(tool_input={"command": "true"})


@hook("pre_tool_use", match="two slow in order", id="slow")
@hook("pre_tool_use", match="two slow in order", id="slow-too")
@hook("pre_tool_use", match="two slow at once", id="slow-at-once", only_judges=True)
@hook("pre_tool_use", match="two slow at once", id="slow-at-once-too", only_judges=True)
def think(event: Any) -> Any:
    time.sleep(SLOW)
