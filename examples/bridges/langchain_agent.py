"""A LangChain agent with guarded tools.  A refused call never executes, and the model is told why."""

from __future__ import annotations

import subprocess
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool

from hooklatch.bridges.guard import Guard, open_guard_sync
from hooklatch.bridges.langchain import GuardMiddleware


@tool
def shell(command: str) -> str:
    """Run a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


def clean(guard: Guard, model: str | BaseChatModel) -> str:
    agent: Any = create_agent(model, [shell], middleware=[GuardMiddleware(guard)])
    result = agent.invoke({"messages": [{"role": "user", "content": "Clean the build folder."}]})
    return result["messages"][-1].text


def main() -> None:
    with open_guard_sync(host="langchain") as guard:
        print(clean(guard, "anthropic:claude-sonnet-4-5"))


if __name__ == "__main__":
    main()
