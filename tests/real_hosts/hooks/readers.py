"""The guards of results of the daemon under test, one a row: each acts on the result that holds the row's word."""

import os
import signal
import time
from pathlib import Path

from hooklatch import amend, deny, halt, hook


def holds(event, row):
    return f"row-{row}-secret" in str(event.tool_response)


def without(value):
    """Return a result of the same shape without what is secret in it."""
    if isinstance(value, str):
        return value.replace("-secret", "-redacted")
    if isinstance(value, dict):
        return {key: without(below) for key, below in value.items()}
    return [without(below) for below in value] if isinstance(value, list) else value


@hook("tool_result")
def redact_reader(event):
    return amend(tool_response=without(event.tool_response)) if holds(event, "redact") else None


@hook("tool_result")
def text_reader(event):
    return amend(tool_response="another text") if holds(event, "text") else None


@hook("tool_result")
def deny_reader(event):
    return deny("withheld by deny_reader") if holds(event, "deny") else None


@hook("tool_result")
def raise_reader(event):
    if holds(event, "raise"):
        raise ValueError("a bug of raise_reader")


@hook("tool_result")
def killed_reader(event):
    if holds(event, "killed"):
        os.kill(os.getpid(), signal.SIGKILL)


@hook("tool_result", timeout=0.5)
def hang_reader(event):
    if holds(event, "hang"):
        time.sleep(600)


@hook("tool_result")
def rubbish_reader(event):
    return "this is no verdict" if holds(event, "rubbish") else None


@hook("tool_result", timeout=600)
def busy_reader(event):
    """Say that it runs, and go on running: it is the daemon that dies."""
    if holds(event, "daemon_dies"):
        Path(__file__).with_name("busy").open("w").close()
        time.sleep(600)
