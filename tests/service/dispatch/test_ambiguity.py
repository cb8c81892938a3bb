"""What comes in with a key twice is judged by nobody: a gate denies, whoever sent it and wherever the key stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Client, running_daemon

pytestmark = pytest.mark.slow  # it starts a daemon: 0.5 s

GUARDS = """
from hooklatch import allow, hook

@hook("pre_tool_use", match="Bash")
def guard(event):
    return allow()
"""
CONFIG = """
[[source]]
path = "guards.py"

[[hook]]
id = "shell"
event = "pre_tool_use"
match = "Shell"
output = "json"
command = '''echo '{"verdict":"deny","reason":"no","verdict":"allow"}' '''
"""
INPUT = '"tool_input":{"command":"ls"}'
SOUND = '"payload":{"tool_name":"Bash",' + INPUT + "}"
PARAMS = {
    "deep in the payload": SOUND.replace('"ls"', '"ls","command":"rm -rf /"'),
    "escaped": SOUND.replace('"ls"', '"ls","comm\\u0061nd":"rm -rf /"'),
    "beside an escaped colon": SOUND.replace('"ls"', '"\\u003a","command":"rm"'),
    "at the top of the payload": SOUND.replace(INPUT, f"{INPUT},{INPUT}"),
    "what is matched": SOUND.replace(INPUT, f'"tool_name":"Read",{INPUT}'),
    "in the context": SOUND + ',"context":{"a":1,"a":2}',
    "in the envelope": SOUND + ',"envelope":{"metadata":{"a":1,"a":2}}',
    "the payload itself": '"payload":{},' + SOUND,
    "a number out of range": SOUND.replace('"ls"', "1e999"),
}


async def fire(client: Client, params: str, event: str = "pre_tool_use") -> dict[str, Any]:
    line = f'{{"jsonrpc":"2.0","id":7,"method":"fire","params":{{"event":"{event}",{params}}}}}\n'
    await client.send_raw(line.encode())
    return await client.answer_to(7)


async def test_a_key_that_stands_twice_is_refused_wherever_it_comes_in(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS}) as daemon:
        async with daemon.session() as client:
            sound = await fire(client, SOUND)
            refused = {name: await fire(client, params) for name, params in PARAMS.items()}
            observed = await fire(client, '"payload":{"a":1,"a":2}', "notification")
            unheard = await fire(client, '"payload":{"a":1,"a":2},"wait":false')
            shell = await fire(client, '"payload":{"tool_name":"Shell"}')
        native = daemon.connect()
        await native.call("hello", protocol=1, dialect="reasonix", session={})
        spoken = await fire(
            native, '"payload":{"toolName":"Bash","toolArgs":{"command":"ls","command":"rm"}}', "PreToolUse"
        )
        await native.aclose()

    assert sound["verdict"] == "allow"
    for name, decision in refused.items():
        assert (decision["verdict"], decision["cause"]) == ("deny", "payload"), name
        assert "out of range" in decision["reason"] or "occurs twice in one object" in decision["reason"], name
        assert not decision.get("outcomes"), name
    assert (observed["verdict"], "the key 'a' occurs twice" in observed["warnings"][0]) == ("pass", True)
    assert unheard["accepted"] is False
    assert (shell["verdict"], shell["cause"]) == ("deny", "protocol")
    assert "the key 'verdict' occurs twice" in shell["reason"]
    assert (spoken["verdict"], spoken["cause"]) == ("deny", "payload")


@pytest.mark.parametrize(
    ("greeting", "event", "result"),
    [
        ({}, "pre_tool_use", '{"verdict":"allow","patch":{"tool_input":{"command":"ls","command":"rm"}}}'),
        ({"dialect": "reasonix"}, "PreToolUse", '{"exitCode":0,"exitCode":2}'),
    ],
)
async def test_an_answer_of_a_serving_client_with_a_key_twice_is_garbage(
    tmp_path: Path, greeting: dict[str, str], event: str, result: str
) -> None:
    async with running_daemon(tmp_path) as daemon:
        client = daemon.connect()
        hook = {"id": "served", "event": event, "served": True}
        await client.call("hello", protocol=1, session={"hooks": [hook]}, **greeting)
        number = await client.send("fire", event=event, payload={"toolName": "Bash", "tool_name": "Bash"})
        with trio.fail_after(10):
            asked = await client.read()
            assert asked is not None
            await client.send_raw(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (asked["id"], result.encode()))
            decision = await client.answer_to(number)
        await client.aclose()

    assert (decision["verdict"], decision["cause"]) == ("deny", "protocol")
    assert "occurs twice in one object" in decision["reason"]
