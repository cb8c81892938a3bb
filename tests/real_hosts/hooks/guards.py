"""The guards of the daemon under test, one a row: it misbehaves when the tool is about to make the row's file."""

import os
import re
import signal
import time
from pathlib import Path

from hooklatch import amend, ask, deny, hook

ROW = re.compile(r"(\w+)\.ran")


def is_about(event, *rows):
    found = ROW.search(str(event.tool_input))
    return bool(found) and found[1] in rows


@hook("pre_tool_use")
def deny_guard(event):
    if is_about(event, "deny", "one_of_two", "subagent"):
        return deny("refused by deny_guard")
    return None


@hook("pre_tool_use")
def ask_guard(event):
    return ask("asked by ask_guard") if is_about(event, "ask") else None


@hook("pre_tool_use")
def rewrite_guard(event):
    if not is_about(event, "rewrite"):
        return None
    command = event.tool_input["command"].replace("rewrite.ran", "rewritten.ran")
    return amend(tool_input={**event.tool_input, "command": command})


@hook("pre_tool_use")
def noise_guard(event):
    if not is_about(event, "noise"):
        return None
    print("warning: a library says something")
    os.write(1, b"warning: so does another\n")
    return deny("refused by noise_guard")


@hook("pre_tool_use")
def raise_guard(event):
    if is_about(event, "raise"):
        raise ValueError("a bug of raise_guard")


@hook("pre_tool_use")
def exit_2_guard(event):
    if is_about(event, "exit_2"):
        os._exit(2)


@hook("pre_tool_use")
def killed_guard(event):
    if is_about(event, "killed"):
        os.kill(os.getpid(), signal.SIGKILL)


@hook("pre_tool_use", timeout=0.5)
def hang_guard(event):
    if is_about(event, "hang"):
        time.sleep(600)


@hook("pre_tool_use", timeout=600)
def busy_guard(event):
    """Say that it runs, and go on running: it is the daemon that dies."""
    if is_about(event, "daemon_dies"):
        Path(__file__).with_name("busy").open("w").close()
        time.sleep(600)


@hook("pre_tool_use")
def rubbish_guard(event):
    return "this is no verdict" if is_about(event, "rubbish") else None


@hook("pre_tool_use")
def half_guard(event):
    if is_about(event, "half"):
        os.write(1, b'{"hookSpecificOutput": {"permissionDec')
        os._exit(0)
