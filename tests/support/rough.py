"""What tests of bad peers share: guards, a line to send, and what comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from support.daemons import Client

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


BAD_LINES = {
    "no JSON": (b"hello\n", "parse_error", None, "not JSON"),
    "half an object": (b'{"jsonrpc":"2.0","id":5\n', "parse_error", None, "truncated"),
    "a byte order mark": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":5,"method":"ping"}\n', "parse_error", 5, "not JSON"),
    "UTF-16": ('{"id":5}'.encode("utf-16") + b"\n", "parse_error", 5, "utf-8"),
    "GB18030": (b'{"jsonrpc":"2.0","id":5,"method":"\xc4\xe3"}\n', "parse_error", None, "utf-8"),
    "a string cut inside a character": (line(b'{"tool_name":"\xe4\xbd"}'), "parse_error", None, "utf-8"),
    "a batch": (b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]\n', "invalid_request", None, "batches"),
    "no version": (b'{"id":5,"method":"ping"}\n', "invalid_request", 5, '"jsonrpc": "2.0"'),
    "another version": (b'{"jsonrpc":"1.0","id":5,"method":"ping"}\n', "invalid_request", 5, '"jsonrpc": "2.0"'),
    "a string": (b'"ping"\n', "invalid_request", None, "Expected `object`"),
    "a number": (b"7\n", "invalid_request", None, "Expected `object`"),
    "null": (b"null\n", "invalid_request", None, "Expected `object`"),
    "an empty object": (b"{}\n", "invalid_request", None, "jsonrpc"),
    "no method": (b'{"jsonrpc":"2.0","id":5}\n', "invalid_request", None, "needs a result or an error"),
    "a method that is a number": (b'{"jsonrpc":"2.0","id":5,"method":7}\n', "invalid_request", 5, "$.method"),
    "a floating id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', "invalid_request", None, "$.id"),
    "a true id": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n', "invalid_request", None, "$.id"),
    "an unknown method": (b'{"jsonrpc":"2.0","id":5,"method":"fir"}\n', "method_not_found", 5, "there are fire"),
    "params as a list": (b'{"jsonrpc":"2.0","id":5,"method":"fire","params":[1]}\n', "invalid_params", 5, "`object`"),
    "params as null": (b'{"jsonrpc":"2.0","id":5,"method":"fire","params":null}\n', "invalid_params", 5, "`object`"),
    "a payload that is a list": (line(b"[1]"), "invalid_params", 5, "payload must be an object"),
    "a payload that is null": (line(b"null"), "invalid_params", 5, "payload must be an object"),
    "an unknown event": (line(b"{}", b"pre_tool_uze"), "unknown_event", 5, "did you mean 'pre_tool_use'"),
    "NaN": (line(b'{"tool_name":"Bash","x":NaN}'), "parse_error", 5, "not JSON"),
    "Infinity": (line(b'{"tool_name":"Bash","x":-Infinity}'), "parse_error", 5, "not JSON"),
    "a lone high surrogate": (line(rb'{"tool_name":"Bash\ud800"}'), "parse_error", 5, "lone surrogate"),
    "a lone low surrogate": (line(rb'{"tool_name":"\udc00Bash"}'), "parse_error", 5, "lone surrogate"),
    "a lone surrogate as a method": (b'{"jsonrpc":"2.0","id":5,"method":"\\ud800"}\n', "parse_error", 5, "surrogate"),
    "a lone surrogate as the id": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"p"}\n', "parse_error", None, "lone"),
    "100,000 lists": (line(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "parse_error", None, "too deep"),
    "100,000 objects": (line(b'{"x":' * 100_000 + b"1" + b"}" * 100_000), "parse_error", None, "too deep"),
    "a control character": (line(b'{"tool_name":"a\x00b"}'), "parse_error", None, "not JSON"),
    "a timeout of 0": (
        b'{"jsonrpc":"2.0","id":5,"method":"fire","params":{"event":"stop","timeout":0}}\n',
        "invalid_params", 5, "timeout must be a number of seconds over 0",
    ),
    "a timeout past all numbers": (
        b'{"jsonrpc":"2.0","id":5,"method":"fire","params":{"event":"stop","timeout":1e999}}\n',
        "invalid_params", 5, "out of range",
    ),
}  # fmt: skip


def tool(name: str, go: Path) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": {"go": str(go)}}
