"""pydantic-ai: a capability.  Knows its hooks; decides nothing.

Guards judge the arguments as they were validated, which is what the tool is called with; values that JSON cannot say
(dates, models) are shown as their JSON, and a tool that has any keeps them: a rewrite of its input is a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hooklatch.bridges.guard import Guard, make_missing_sdk_error
from hooklatch.bridges.rulings import AskRuling, ProceedRuling, RefuseRuling, SdkAbilities
from hooklatch.client.protocol.json_values import encode_plain
from hooklatch.errors import InvalidPayloadError

try:
    from pydantic_ai.capabilities import CapabilityOrdering, Hooks
    from pydantic_ai.exceptions import AgentRunError, ApprovalRequired, ToolFailed
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import RunContext, ToolDefinition
    from pydantic_core import to_jsonable_python
except ModuleNotFoundError as error:
    raise make_missing_sdk_error("pydantic-ai", error) from error

__all__ = ["PromptRefusedError", "guard_hooks"]

PROMPT: Final = SdkAbilities(name="pydantic-ai")
RESULT: Final = SdkAbilities(name="pydantic-ai", rewrites=True)


class PromptRefusedError(AgentRunError):
    """The run is not begun: guards refuse what the person has said.  The message is their reason."""


def guard_hooks(guard: Guard, *, approvals: bool = False) -> Hooks[Any]:
    """Return the capability that asks the guard: `Agent(..., capabilities=[guard_hooks(guard)])`.

    It is the innermost capability, so no other one changes what it has judged.  A refused call is a failed one to the
    model.  With `approvals` an ask requires approval, and the agent's output type has DeferredToolRequests; else it
    is a refusal.
    """
    hooks: Hooks[Any] = Hooks(ordering=CapabilityOrdering(position="innermost"))

    @hooks.on.before_tool_execute
    async def before_tool(
        ctx: RunContext[Any], /, *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        is_plain = is_json(args)
        can = SdkAbilities(name="pydantic-ai", rewrites=is_plain, asks=approvals)
        shown = args if is_plain else to_jsonable_python(args, fallback=str)
        ruling = await guard.before_tool(call.tool_name, shown, call.tool_call_id, can)
        if isinstance(ruling, RefuseRuling):
            raise ToolFailed(ruling.text)
        if isinstance(ruling, AskRuling):
            if not ctx.tool_call_approved:
                raise ApprovalRequired(metadata={"reason": ruling.text})
            return args
        return ruling.value if ruling.is_rewritten else args

    @hooks.on.after_tool_execute
    async def after_tool(
        ctx: RunContext[Any], /, *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], result: Any
    ) -> Any:
        ruling = await guard.after_tool(result, RESULT, **describe_tool_call(call, args))
        return ruling.value if isinstance(ruling, ProceedRuling) else ruling.text

    @hooks.on.tool_execute_error
    async def tool_error(
        ctx: RunContext[Any], /, *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], error: Exception
    ) -> Any:
        await guard.tell("post_tool_use_failure", **describe_tool_call(call, args), error=error)
        raise error

    @hooks.on.before_run
    async def before_run(ctx: RunContext[Any], /) -> None:
        if ctx.prompt is None:
            return  # a run that goes on with what it has
        ruling = await guard.before_prompt(format_prompt(ctx.prompt), PROMPT)
        if isinstance(ruling, RefuseRuling):
            raise PromptRefusedError(ruling.text)

    @hooks.on.after_run
    async def after_run(ctx: RunContext[Any], /, *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        await guard.tell("stop", result=result.output)
        return result

    @hooks.on.before_model_request
    async def before_model(ctx: RunContext[Any], request_context: ModelRequestContext, /) -> ModelRequestContext:
        await guard.tell("model_request", model_id=ctx.model.model_name)
        return request_context

    @hooks.on.after_model_request
    async def after_model(
        ctx: RunContext[Any], /, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        await guard.tell("model_response", model_id=response.model_name or "", finish_reason=response.finish_reason)
        return response

    return hooks


def is_json(args: dict[str, Any]) -> bool:
    try:
        encode_plain(args, "the arguments")
    except InvalidPayloadError:
        return False
    return True


def describe_tool_call(call: ToolCallPart, args: dict[str, Any]) -> dict[str, Any]:
    shown = args if is_json(args) else to_jsonable_python(args, fallback=str)
    return {"tool_name": call.tool_name, "tool_input": shown, "tool_use_id": call.tool_call_id}


def format_prompt(prompt: str | Sequence[Any]) -> str:
    """Return the text of a prompt; a part that is not a text, such as an image, is shown as its type."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(part if isinstance(part, str) else f"[{type(part).__name__}]" for part in prompt)
