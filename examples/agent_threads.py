"""A small agent without an event loop: threads share one session.

Run it beside a daemon (hooklatch serve); without one every tool is refused.
"""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hooklatch

CALLS = [
    {"id": "toolu_1", "name": "Shell", "input": {"command": "echo hello"}},
    {"id": "toolu_2", "name": "Shell", "input": {"command": "rm -rf build"}},
    {"id": "toolu_3", "name": "Shell", "input": {"command": "exit 3"}},
]


def shell(tool_input: dict[str, Any]) -> str:
    return subprocess.run(tool_input["command"], shell=True, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    with hooklatch.connect_sync(host="example") as session:
        session.fire("session_start", source="startup", wait=False)
        if not (session.is_connected and session.has_handlers("pre_tool_use")):
            print("# nobody guards the tools of this agent", flush=True)

        def run(call: dict[str, Any]) -> dict[str, Any]:
            done = session.run_tool(call["name"], call["input"], shell, tool_use_id=call["id"])
            return done.as_tool_result()

        with ThreadPoolExecutor() as threads:
            for block in threads.map(run, CALLS):
                print(json.dumps(block), flush=True)
        session.fire("stop", finish_reason="end_turn")


if __name__ == "__main__":
    main()
