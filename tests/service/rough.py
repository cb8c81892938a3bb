"""What tests of bad peers share: guards, a line to send, and what comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from support import Client

GUARDS = """
import os
import time

from hooklatch_worker import amend, deny, hook

@hook("pre_tool_use", match="Bash")
def no(event):
    return deny("no")

@hook("pre_tool_use", match="Count")
def count(event):
    number = event.tool_input["number"]
    return amend(tool_input={"number": number, "next": number + 1})

@hook("pre_tool_use", match="Slow")
def slow(event):
    while not os.path.exists(event.tool_input["go"]):
        time.sleep(0.005)

@hook("pre_tool_use", match="Size")
def size(event):
    return deny(str(len(event.tool_input["text"])))
"""


async def answer_to(client: Client, data: bytes) -> dict[str, Any]:
    """Send bytes; give what comes back: an error, or a result."""
    await client.send_raw(data)
    with trio.fail_after(10):
        answer = await client.read()
    assert answer is not None
    return answer


def line(payload: bytes, event: bytes = b"pre_tool_use") -> bytes:
    params = b'{"event":"%b","payload":%b}' % (event, payload)
    return b'{"jsonrpc":"2.0","id":5,"method":"fire","params":%b}\n' % params


def tool(name: str, go: Path) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": {"go": str(go)}}


async def until(condition: Any) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.001)
