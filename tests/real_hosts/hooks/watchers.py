"""The watchers of the daemon under test: hooks of events that nobody may wait for.  They hang for longer than a test.

Each leaves a file of its name beside this one, so that a test knows that it was called.
"""

import time
from pathlib import Path

from hooklatch import hook

HERE = Path(__file__).parent
HANG = 300  # seconds


@hook("session_start", timeout=600)
def hanging_at_the_start(event):
    (HERE / "session_start.seen").touch()
    time.sleep(HANG)


@hook("post_tool_use", timeout=600)
def hanging_after_a_tool(event):
    (HERE / "post_tool_use.seen").touch()
    time.sleep(HANG)


@hook("post_tool_use")
def raising_after_a_tool(event):
    raise ValueError("a bug of a watcher")


@hook("session_end", timeout=600)
def hanging_at_the_end(event):
    (HERE / "session_end.seen").touch()
    time.sleep(HANG)
