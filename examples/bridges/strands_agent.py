"""A Strands agent with a guarded tool.  A refused call never executes, and the model is told why."""

from __future__ import annotations

import subprocess

from strands import Agent, tool
from strands.models import Model

from hooklatch.bridges.guard import Guard, open_guard_sync
from hooklatch.bridges.strands import GuardHooks


@tool
def shell(command: str) -> str:
    """Run a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


def clean(guard: Guard, model: str | Model | None) -> str:
    agent = Agent(model=model, tools=[shell], hooks=[GuardHooks(guard)], callback_handler=None)
    return str(agent("Clean the build folder."))


def main() -> None:
    with open_guard_sync(host="strands") as guard:
        print(clean(guard, None))  # the SDK's own default, on Bedrock


if __name__ == "__main__":
    main()
