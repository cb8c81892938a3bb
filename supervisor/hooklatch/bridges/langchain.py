"""langchain: middleware of `create_agent`, for agents that are invoked and those that are awaited.  Decides nothing.

The last middleware is the one next to the tool: put this one there, so that what it has judged is what runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from hooklatch.bridges.guard import Guard, make_missing_sdk_error
from hooklatch.bridges.rulings import AskRuling, ProceedRuling, Ruling, SdkAbilities

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import hook_config
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command, interrupt
except ModuleNotFoundError as error:
    raise make_missing_sdk_error("langchain", error) from error

__all__ = ["GuardMiddleware"]

Handler = Callable[[ToolCallRequest], ToolMessage | Command[Any]]
AsyncHandler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]


class GuardMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Asks the guard before each tool and each prompt: `create_agent(..., middleware=[..., GuardMiddleware(guard)])`.

    `invoke` needs a guard of `open_guard_sync`.  With `approvals` an ask interrupts the graph, which needs a
    checkpointer, and `Command(resume=True)` approves it; else it is a refusal.
    """

    def __init__(self, guard: Guard, *, approvals: bool = False) -> None:
        super().__init__()
        self._guard = guard
        self._can = SdkAbilities(name="langchain", rewrites=True, asks=approvals)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> ToolMessage | Command[Any]:
        """Call the tool if its guards agree; else answer the call with the reason."""
        call = request.tool_call
        permitted = apply_ruling(
            request, self._guard.before_tool_blocking(call["name"], call["args"], call["id"], self._can)
        )
        if isinstance(permitted, ToolMessage):
            return permitted
        try:
            result = handler(permitted)
        except GraphBubbleUp:
            raise  # an interrupt inside of the tool, which has not ended
        except Exception as error:
            event, payload = describe_failure(permitted, error)
            self._guard.tell_blocking(event, **payload)
            raise
        event, payload = describe_result(permitted, result)
        if event != "post_tool_use":
            self._guard.tell_blocking(event, **payload)
            return result
        response = payload.pop("tool_response")
        return replace_result(permitted, result, self._guard.after_tool_blocking(response, RESULT, **payload))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncHandler) -> ToolMessage | Command[Any]:
        """Do what `wrap_tool_call` does, in an event loop."""
        call = request.tool_call
        permitted = apply_ruling(
            request, await self._guard.before_tool(call["name"], call["args"], call["id"], self._can)
        )
        if isinstance(permitted, ToolMessage):
            return permitted
        try:
            result = await handler(permitted)
        except GraphBubbleUp:
            raise
        except Exception as error:
            event, payload = describe_failure(permitted, error)
            await self._guard.tell(event, **payload)
            raise
        event, payload = describe_result(permitted, result)
        if event != "post_tool_use":
            await self._guard.tell(event, **payload)
            return result
        response = payload.pop("tool_response")
        return replace_result(permitted, result, await self._guard.after_tool(response, RESULT, **payload))

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the run with the reason if the prompt is refused."""
        prompt = find_prompt(state)
        return None if prompt is None else make_end(self._guard.before_prompt_blocking(prompt, PROMPT))

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do what `before_agent` does, in an event loop."""
        prompt = find_prompt(state)
        return None if prompt is None else make_end(await self._guard.before_prompt(prompt, PROMPT))

    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Tell that the model is asked."""
        self._guard.tell_blocking("model_request", model_id="")

    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do what `before_model` does, in an event loop."""
        await self._guard.tell("model_request", model_id="")

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Tell that the model has answered."""
        self._guard.tell_blocking("model_response", **describe_response(state))

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do what `after_model` does, in an event loop."""
        await self._guard.tell("model_response", **describe_response(state))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Tell that the run has ended."""
        self._guard.tell_blocking("stop", last_assistant_message=format_message(state["messages"][-1]))

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do what `after_agent` does, in an event loop."""
        await self._guard.tell("stop", last_assistant_message=format_message(state["messages"][-1]))


PROMPT = SdkAbilities(name="langchain")
RESULT = SdkAbilities(name="langchain", rewrites=True)


def apply_ruling(request: ToolCallRequest, ruling: Ruling) -> ToolCallRequest | ToolMessage:
    """Return the request that may be made, or the answer that refuses it."""
    call = request.tool_call
    if isinstance(ruling, AskRuling):
        # Raises, and ends the run of the graph here; resumed, all of this happens again and it returns the answer.
        question = {"reason": ruling.text, "tool_name": call["name"], "tool_input": call["args"]}
        if interrupt(question) is True:
            return request
    elif isinstance(ruling, ProceedRuling):
        return request.override(tool_call={**call, "args": ruling.value}) if ruling.is_rewritten else request
    return ToolMessage(content=ruling.text, name=call["name"], tool_call_id=call["id"] or "", status="error")


def describe_failure(request: ToolCallRequest, error: Exception) -> tuple[str, dict[str, Any]]:
    return "post_tool_use_failure", {**describe_tool_call(request), "error": f"{type(error).__name__}: {error}"}


def describe_result(request: ToolCallRequest, result: object) -> tuple[str, dict[str, Any]]:
    if isinstance(result, ToolMessage) and result.status == "error":
        return "post_tool_use_failure", {**describe_tool_call(request), "error": format_message(result)}
    response = format_message(result) if isinstance(result, ToolMessage) else result
    return "post_tool_use", {**describe_tool_call(request), "tool_response": response}


def replace_result(
    request: ToolCallRequest, result: ToolMessage | Command[Any], ruling: Ruling
) -> ToolMessage | Command[Any]:
    """Return the result as its guards let it through; a command that is withheld is not carried out."""
    if isinstance(ruling, ProceedRuling) and not ruling.is_rewritten:
        return result
    text = str(ruling.value) if isinstance(ruling, ProceedRuling) else ruling.text
    call = request.tool_call
    return ToolMessage(content=text, name=call["name"], tool_call_id=call["id"] or "")


def describe_tool_call(request: ToolCallRequest) -> dict[str, Any]:
    call = request.tool_call
    return {"tool_name": call["name"], "tool_input": call["args"], "tool_use_id": call["id"]}


def find_prompt(state: AgentState[Any]) -> str | None:
    """Return what the person has said last; None if the run goes on without anything new."""
    last = state["messages"][-1] if state["messages"] else None
    return format_message(last) if isinstance(last, HumanMessage) else None


def make_end(ruling: Ruling) -> dict[str, Any] | None:
    return (
        None if isinstance(ruling, ProceedRuling) else {"jump_to": "end", "messages": [AIMessage(content=ruling.text)]}
    )


def describe_response(state: AgentState[Any]) -> dict[str, Any]:
    last = state["messages"][-1]
    usage = last.usage_metadata if isinstance(last, AIMessage) else None
    return {"model_id": "", "usage": None if usage is None else dict(cast("dict[str, Any]", usage))}


def format_message(message: BaseMessage) -> str:
    return str(message.text)
