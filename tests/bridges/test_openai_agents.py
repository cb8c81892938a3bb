"""openai-agents with a scripted model: a refused call never executes, and the model is told why."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed: pip install 'hooklatch[openai-agents]'")

from agents import (
    Agent,
    InputGuardrailTripwireTriggered,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    ToolInputGuardrailTripwireTriggered,
    Usage,
    WebSearchTool,
    function_tool,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from hooklatch.bridges.guard import open_guard
from hooklatch.bridges.openai_agents import TellingHooks, guarded, guarded_tools
from support.bridged import COMMANDS, READINGS, REFUSALS, Bridged, called, example
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow  # each file imports an SDK and starts workers


class Script(Model):
    """A model that calls a tool with each word at once, and then says what it was told."""

    def __init__(self, *arguments: str) -> None:
        self.calls = [("speak", text) for text in arguments]
        self.told: dict[str, str] = {}
        self.requests = 0

    async def get_response(self, system_instructions: Any, input: Any, *others: Any, **more: Any) -> ModelResponse:  # noqa: A002
        self.requests += 1
        answers = [one for one in input if isinstance(one, dict) and one.get("type") == "function_call_output"]
        if not answers:
            output: list[Any] = [
                ResponseFunctionToolCall(type="function_call", name=name, call_id=f"call-{number}", arguments=text)
                for number, (name, text) in enumerate(self.calls)
            ]
        else:
            self.told = {one["call_id"]: one["output"] for one in answers}
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = [
                ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[text])
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *others: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def run(runtime_dir: str, model: Script, prompt: str = "go on") -> list[str]:
    """Return what the tool has said."""
    said: list[str] = []

    @function_tool
    def speak(word: str) -> str:
        """Say a word."""
        said.append(word)
        return f"said {word}"

    async def main() -> None:
        async with open_guard(runtime_dir=runtime_dir) as guard:
            agent = guarded(guard, Agent(name="speaker", model=model, tools=[speak]))
            await Runner.run(agent, prompt, hooks=TellingHooks(guard), run_config=RunConfig(tracing_disabled=True))

    asyncio.run(main())
    return said


def test_a_result_is_changed_or_withheld_before_the_model_reads_it(place: Bridged) -> None:
    model = Script(*(json.dumps({"word": word}) for word in READINGS))

    said = run(place.runtime_dir, model)

    assert sorted(said) == sorted(READINGS)
    assert all(text in model.told[f"call-{number}"] for number, text in enumerate(READINGS.values()))


def test_each_call_at_the_same_time_gets_its_own_verdict(place: Bridged) -> None:
    words = ["hello", *(word for word in REFUSALS if word != "halt"), "rewrite", "ask"]
    model = Script(*(json.dumps({"word": word}) for word in words))

    said = run(place.runtime_dir, model)

    told = {word: model.told[f"call-{number}"] for number, word in enumerate(words)}
    assert said == ["hello"]
    assert told["hello"] == "said hello"
    assert all(REFUSALS[word] in told[word] for word in REFUSALS if word != "halt")
    assert "openai-agents cannot replace it" in told["rewrite"]
    assert "openai-agents cannot ask a person here: somebody should look" in told["ask"]
    assert place.wait_told("post_tool_use")["tool_input"] == {"word": "hello"}
    assert place.wait_told("stop")["result"] == "done"
    assert place.wait_told("model_request")


def test_a_halt_ends_the_run(place: Bridged) -> None:
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        run(place.runtime_dir, Script('{"word": "halt"}'))


def test_arguments_that_parsers_read_differently_are_refused(place: Bridged) -> None:
    model = Script('{"word": "deny", "word": "hello"}')

    assert run(place.runtime_dir, model) == []
    assert "twice" in model.told["call-0"]
    assert place.asked() == []


def test_without_a_daemon_nothing_runs(nowhere: str) -> None:
    with pytest.raises(InputGuardrailTripwireTriggered):
        run(nowhere, Script('{"word": "hello"}'))


def test_a_refused_prompt_never_reaches_the_model(place: Bridged) -> None:
    model = Script('{"word": "hello"}')

    with pytest.raises(InputGuardrailTripwireTriggered) as refusal:
        run(place.runtime_dir, model, prompt="a forbidden thing")

    assert "not discussed here" in str(refusal.value.guardrail_result.output.output_info)
    assert model.requests == 0


def test_a_tool_that_no_guardrail_can_be_put_on_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="takes no guardrail"):
        guarded_tools(None, [WebSearchTool()])  # type: ignore[arg-type]


def test_the_example_runs_what_it_may(place: Bridged) -> None:
    model = Script()
    model.calls = [(name, json.dumps(tool_input)) for name, tool_input in map(called, COMMANDS)]

    async def main() -> str:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            return await example("openai_agent").clean(guard, model)

    assert asyncio.run(main()) == "done"
    assert model.told == {"call-0": "hello\n", "call-1": "name the files to remove"}


SERVER = """
from mcp.server import MCPServer

server = MCPServer("words")

@server.tool()
def speak(word: str) -> str:
    return f"said {word}"

server.run()
"""


def test_the_tools_of_an_mcp_server_are_guarded_by_the_latest_guard(place: Bridged, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the package mcp is not installed: pip install 'hooklatch[bridges]'")
    from agents.mcp import MCPServerStdio

    path = tmp_path / "server.py"
    path.write_text(SERVER)
    model = Script('{"word": "hello"}', '{"word": "deny"}')

    async def main() -> None:
        async with MCPServerStdio({"command": sys.executable, "args": [str(path)]}, name="words") as server:
            agent = Agent(name="speaker", model=model, mcp_servers=[server])
            for _ in range(2):
                async with open_guard(runtime_dir=place.runtime_dir) as guard:
                    config = RunConfig(tracing_disabled=True)
                    await Runner.run(guarded(guard, agent), "go on", run_config=config)
                assert "said hello" in str(model.told["call-0"])
                assert model.told["call-1"] == "that word is not said here"
                assert len(server.tool_input_guardrails or ()) == 1

    with nobody_survives():
        asyncio.run(main())
