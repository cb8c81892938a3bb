"""google-adk: a plugin of the Runner, which sees the tools of every agent in it.  Decides nothing.

A plugin comes before the agents' own `before_tool_callback`, and one that is registered earlier before this one: put it
last, and change no input in an agent's callbacks.
"""

from __future__ import annotations

from typing import Any, Final, cast

from hooklatch.bridges.guard import Guard, make_missing_sdk_error
from hooklatch.bridges.rulings import AskRuling, ProceedRuling, SdkAbilities

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ModuleNotFoundError as error:
    raise make_missing_sdk_error("google-adk", error) from error

__all__ = ["GuardPlugin"]

PROMPT: Final = SdkAbilities(name="google-adk")
RESULT: Final = SdkAbilities(name="google-adk", rewrites=True)


class NotRun(dict[str, Any]):
    """The answer to a call that was not made: the model sees it, and no hook is called with a result."""


class GuardPlugin(BasePlugin):
    """Asks the guard before each tool and each prompt: `App(..., plugins=[GuardPlugin(guard)])`.

    With `approvals` an ask requests a confirmation of the tool; else it is a refusal.
    """

    def __init__(self, guard: Guard, *, approvals: bool = False) -> None:
        super().__init__(name="hooklatch")
        self._guard = guard
        self._can = SdkAbilities(name="google-adk", rewrites=True, asks=approvals)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Answer the call with the reason, unless its guards agree."""
        ruling = await self._guard.before_tool(
            tool.name, tool_args, tool_context.function_call_id, self._can, agent_type=tool_context.agent_name
        )
        if isinstance(ruling, ProceedRuling):
            if ruling.is_rewritten:
                tool_args.clear()
                tool_args.update(ruling.value)
            return None
        if isinstance(ruling, AskRuling):
            answer = tool_context.tool_confirmation
            if answer is not None and answer.confirmed is True:
                return None
            if answer is None:
                tool_context.request_confirmation(hint=ruling.text)
                tool_context.actions.skip_summarization = True
        return NotRun(error=ruling.text)

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Have the result of a call judged, and report the call."""
        if isinstance(result, NotRun):
            return None
        ruling = await self._guard.after_tool(result, RESULT, **describe_tool_call(tool, tool_args, tool_context))
        if not isinstance(ruling, ProceedRuling):
            return {"error": ruling.text}
        return cast("dict[str, Any]", ruling.value) if ruling.is_rewritten else None

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> None:
        """Tell of a call that has failed."""
        await self._guard.tell(
            "post_tool_use_failure", **describe_tool_call(tool, tool_args, tool_context), error=error
        )

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        """End the run with the reason if what the person has texts is refused."""
        content = invocation_context.user_content
        texts = [part.text for part in (content.parts or [] if content else []) if part.text]
        if not texts:
            return None  # an answer to a question
        ruling = await self._guard.before_prompt("\n".join(texts), PROMPT)
        return None if isinstance(ruling, ProceedRuling) else types.ModelContent(ruling.text)

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Tell that the model is asked."""
        await self._guard.tell("model_request", model_id=llm_request.model or "")

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Tell that the model has answered."""
        reason = llm_response.finish_reason
        await self._guard.tell("model_response", model_id=llm_response.model_version or "", finish_reason=reason)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Tell that the run has ended."""
        await self._guard.tell("stop")


def describe_tool_call(tool: BaseTool, tool_args: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    return {"tool_name": tool.name, "tool_input": tool_args, "tool_use_id": context.function_call_id}
