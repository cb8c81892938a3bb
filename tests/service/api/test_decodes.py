"""How often the daemon decodes a host's document: every decoder of its process is wrapped before it is imported."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.warm_commands import PYTHON

COUNTING = r"""
import json, tempfile
from pathlib import Path

import msgspec
import trio

MARK, counted = b"a-mark-in-the-command", []

def counts(decode):
    def count(data, *rest, **more):
        if MARK in (data.encode() if isinstance(data, str) else bytes(data)):
            counted.append(data)
        return decode(data, *rest, **more)
    return count

class Decoder:
    def __init__(self, *rest, **more):
        self.decode = counts(Real(*rest, **more).decode)
    def __class_getitem__(cls, item):
        return cls

Real, msgspec.json.Decoder, msgspec.json.decode = msgspec.json.Decoder, Decoder, counts(msgspec.json.decode)
json.loads = counts(json.loads)

from hooklatch.service.daemon import DaemonOptions, open_daemon

async def main(folder):
    guard = "from hooklatch import hook\n@hook('pre_tool_use', match='shell')\ndef guard(event):\n    return None\n"
    Path(folder, "guards.py").write_text(guard)
    Path(folder, "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')
    options = DaemonOptions(f"{folder}/hooks.toml", f"{folder}/run", f"{folder}/state", owns_process=False)
    document = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": MARK.decode()}}
    line = b'{"jsonrpc":"2.0","id":1,"method":"host","params":{"host":"claude-code","event":"PreToolUse",'
    line += b'"environ":{},"budget":60,"document":' + msgspec.json.encode(document) + b"}}\n"
    async with open_daemon(options):
        stream = await trio.open_unix_socket(f"{folder}/run/agent.sock")
        await stream.send_all(line)
        return await stream.receive_some()

with tempfile.TemporaryDirectory() as folder:
    answer = trio.run(main, folder)
print(json.dumps([answer.decode(), len(counted)]))
"""


@pytest.mark.linux_only("a process into which nothing of ours was imported before it counts")
def test_a_document_is_decoded_three_times() -> None:
    done = subprocess.run([*PYTHON, "-c", COUNTING], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    answer, count = json.loads(done.stdout)
    assert json.loads(answer)["result"] == {"exit_code": 0, "stdout": "", "stderr": ""}
    assert count == 3  # its keys, its values, and the excerpt of the record
