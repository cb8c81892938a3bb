"""openai-agents: guardrails on function tools and on the prompt, and RunHooks that tell.  Decides nothing.

A guardrail cannot replace a tool's input and its approvals are asked before any guardrail runs, so a rewrite and an ask
are refusals here.  What a guardrail raises ends the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, Final

from hooklatch.bridges.guard import Guard, make_missing_sdk_error
from hooklatch.bridges.rulings import ProceedRuling, RefuseRuling, SdkAbilities, UnreadableInputError, read_object
from hooklatch.client.protocol.tool_calls import print_value_as_text

try:
    from agents import (
        Agent,
        FunctionTool,
        GuardrailFunctionOutput,
        InputGuardrail,
        ModelResponse,
        RunContextWrapper,
        RunHooks,
        Tool,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        ToolOutputGuardrail,
        ToolOutputGuardrailData,
    )
    from agents.items import TResponseInputItem
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    raise make_missing_sdk_error("openai-agents", error) from error

__all__ = ["TellingHooks", "guarded", "guarded_tools", "prompt_guardrail", "result_guardrail", "tool_guardrail"]

ABILITIES: Final = SdkAbilities(name="openai-agents")
RESULT: Final = SdkAbilities(name="openai-agents", rewrites=True)


def guarded(guard: Guard, agent: Agent[Any]) -> Agent[Any]:
    """Return a copy of the agent with its tools, its MCP servers' tools and its prompt guarded.

    Agents that it hands over to are guarded by themselves.

    Raises:
        ValueError: it has a tool that no guardrail can be put on.
    """
    for server in agent.mcp_servers:
        # The server is the caller's own object: what an earlier guard left on it, which may be over, is replaced.
        before, after = server.tool_input_guardrails or [], server.tool_output_guardrails or []
        others = [guardrail for guardrail in before if not isinstance(guardrail, OurGuardrail)]
        server.tool_input_guardrails = [*others, tool_guardrail(guard)]
        others_after = [guardrail for guardrail in after if not isinstance(guardrail, OurResultGuardrail)]
        server.tool_output_guardrails = [*others_after, result_guardrail(guard)]
    return agent.clone(
        tools=guarded_tools(guard, agent.tools), input_guardrails=[*agent.input_guardrails, prompt_guardrail(guard)]
    )


def guarded_tools(guard: Guard, tools: Iterable[Tool]) -> list[Tool]:
    """Return copies of the tools that ask the guard first.

    Raises:
        ValueError: one is not a function tool: the SDK, or its provider, runs it past every guardrail.
    """
    return [guarded_tool(guard, tool) for tool in tools]


def guarded_tool(guard: Guard, tool: Tool) -> FunctionTool:
    if not isinstance(tool, FunctionTool):
        raise ValueError(
            f"the tool {tool.name!r} takes no guardrail, only function tools do; leave it out of the agent"
        )
    ours = copy(tool)
    ours.tool_input_guardrails = [*(tool.tool_input_guardrails or ()), tool_guardrail(guard)]
    ours.tool_output_guardrails = [*(tool.tool_output_guardrails or ()), result_guardrail(guard)]
    return ours


class OurResultGuardrail(ToolOutputGuardrail[Any]):
    """A guardrail that has a result judged."""


class OurGuardrail(ToolInputGuardrail[Any]):
    """A guardrail that asks the guard."""


def tool_guardrail(guard: Guard) -> ToolInputGuardrail[Any]:
    """Return the guardrail for `function_tool(tool_input_guardrails=[...])`."""

    async def judge(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        call = data.context
        ruling = await guard.before_tool(
            call.tool_name, call.tool_arguments, call.tool_call_id, ABILITIES, agent_type=data.agent.name
        )
        if isinstance(ruling, ProceedRuling):
            return ToolGuardrailFunctionOutput.allow()
        if isinstance(ruling, RefuseRuling) and ruling.halts:
            return ToolGuardrailFunctionOutput.raise_exception(output_info=ruling.text)
        return ToolGuardrailFunctionOutput.reject_content(ruling.text)

    return OurGuardrail(guardrail_function=judge, name="hooklatch")


def result_guardrail(guard: Guard) -> ToolOutputGuardrail[Any]:
    """Return the guardrail for `function_tool(tool_output_guardrails=[...])`: the model reads what it lets through."""

    async def judge(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        call = data.context
        ruling = await guard.judge_result(
            data.output, RESULT, tool_name=call.tool_name, tool_input=read_arguments(call.tool_arguments),
            tool_use_id=call.tool_call_id,
        )  # fmt: skip
        if not isinstance(ruling, ProceedRuling):
            return ToolGuardrailFunctionOutput.reject_content(ruling.text)
        if not ruling.is_rewritten:
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content(print_value_as_text(ruling.value))

    return OurResultGuardrail(guardrail_function=judge, name="hooklatch")


def prompt_guardrail(guard: Guard) -> InputGuardrail[Any]:
    """Return the guardrail for `Agent(input_guardrails=[...])`; a refused prompt raises before the model is called."""

    async def judge(
        context: RunContextWrapper[Any], agent: Agent[Any], given: str | list[TResponseInputItem]
    ) -> GuardrailFunctionOutput:
        ruling = await guard.before_prompt(given if isinstance(given, str) else find_last_user_text(given), ABILITIES)
        text = None if isinstance(ruling, ProceedRuling) else ruling.text
        return GuardrailFunctionOutput(output_info=text, tripwire_triggered=text is not None)

    return InputGuardrail(guardrail_function=judge, name="hooklatch", run_in_parallel=False)


def find_last_user_text(items: list[TResponseInputItem]) -> str:
    """Return what the person has said: the text of the last message of a user."""
    for item in reversed(items):
        if item.get("role") == "user":
            content: Any = item.get("content")
            if isinstance(content, str):
                return content
            return "\n".join(str(part.get("text", "")) for part in content)
    return ""


class TellingHooks(RunHooks[Any]):
    """Tells hooks what has happened: `Runner.run(agent, ..., hooks=TellingHooks(guard))`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        await self._guard.tell("model_request", model_id=find_model_name(agent))

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        usage = {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
        await self._guard.tell("model_response", model_id=find_model_name(agent), usage=usage)

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        call: dict[str, object] = {"tool_name": tool.name, "tool_input": None}
        if isinstance(context, ToolContext):
            call |= {"tool_use_id": context.tool_call_id, "tool_input": read_arguments(context.tool_arguments)}
        await self._guard.tell("post_tool_use", **call, tool_response=result)

    async def on_agent_end(self, context: Any, agent: Agent[Any], output: Any) -> None:
        await self._guard.tell("stop", result=output)


def find_model_name(agent: Agent[Any]) -> str:
    return agent.model if isinstance(agent.model, str) else type(agent.model).__name__


def read_arguments(text: str) -> object:
    try:
        return read_object(text)
    except UnreadableInputError:
        return {"unreadable": text}
