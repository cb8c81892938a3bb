"""strands-agents: a HookProvider.  Knows its events; decides nothing.

`agent("...")` runs its hooks in a loop of its own, so it needs a guard of `open_guard_sync`; `invoke_async` takes any.
Hooks that are registered later see the call later: register this provider last, so that what it judged is what runs.
"""

from __future__ import annotations

from typing import Any, Final

from hooklatch.bridges.guard import Guard, make_missing_sdk_error
from hooklatch.bridges.rulings import AskRuling, ProceedRuling, RefuseRuling, SdkAbilities

try:
    from strands.hooks import (
        AfterInvocationEvent,
        AfterModelCallEvent,
        AfterToolCallEvent,
        BeforeInvocationEvent,
        BeforeModelCallEvent,
        BeforeToolCallEvent,
        HookProvider,
        HookRegistry,
    )
except ModuleNotFoundError as error:
    raise make_missing_sdk_error("strands", error) from error

__all__ = ["GuardHooks"]

PROMPT: Final = SdkAbilities(name="strands")
RESULT: Final = SdkAbilities(name="strands", rewrites=True)
QUESTION: Final = "hooklatch"


class GuardHooks(HookProvider):
    """Asks the guard before each tool and each prompt: `Agent(..., hooks=[GuardHooks(guard)])`.

    With `approvals` an ask interrupts the agent (stop reason "interrupt"), and the response True approves it; else it
    is a refusal.
    """

    def __init__(self, guard: Guard, *, approvals: bool = False) -> None:
        self._guard = guard
        self._can = SdkAbilities(name="strands", rewrites=True, asks=approvals)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register what asks and what tells."""
        registry.add_callback(BeforeToolCallEvent, self.before_tool)
        registry.add_callback(AfterToolCallEvent, self.after_tool)
        registry.add_callback(BeforeInvocationEvent, self.before_prompt)
        registry.add_callback(AfterInvocationEvent, self.after_run)
        registry.add_callback(BeforeModelCallEvent, self.before_model)
        registry.add_callback(AfterModelCallEvent, self.after_model)

    async def before_tool(self, event: BeforeToolCallEvent) -> None:
        """Cancel the call with the reason, unless its guards agree."""
        call = event.tool_use
        ruling = await self._guard.before_tool(call["name"], call["input"], call["toolUseId"], self._can)
        if isinstance(ruling, AskRuling):
            question = {"reason": ruling.text, "tool_name": call["name"], "tool_input": call["input"]}
            if event.interrupt(QUESTION, reason=question) is not True:
                event.cancel_tool = ruling.text
        elif isinstance(ruling, RefuseRuling):
            event.cancel_tool = ruling.text
            if ruling.halts:
                event.agent.cancel(after_current_tools=True)
        elif ruling.is_rewritten:
            event.tool_use = {**call, "input": ruling.value}

    async def after_tool(self, event: AfterToolCallEvent) -> None:
        """Tell of a call that was made."""
        if event.cancel_message is not None:
            return
        call = event.tool_use
        payload: dict[str, Any] = {
            "tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["toolUseId"],
        }  # fmt: skip
        if event.exception is not None or event.result["status"] == "error":
            error = event.exception or event.result["content"]
            await self._guard.tell("post_tool_use_failure", **payload, error=error)
        else:
            ruling = await self._guard.after_tool(event.result["content"], RESULT, **payload)
            if not isinstance(ruling, ProceedRuling):
                event.result = {**event.result, "content": [{"text": ruling.text}]}
            elif ruling.is_rewritten:
                event.result = {**event.result, "content": ruling.value}

    async def before_prompt(self, event: BeforeInvocationEvent) -> None:
        """Cancel the run with the reason if what the person has texts is refused."""
        texts = [part["text"] for message in event.messages or [] for part in message["content"] if "text" in part]
        if not texts:
            return  # an answer to a question, or a run that goes on
        ruling = await self._guard.before_prompt("\n".join(texts), PROMPT)
        if not isinstance(ruling, ProceedRuling):
            event.cancel = ruling.text

    async def before_model(self, event: BeforeModelCallEvent) -> None:
        """Tell that the model is asked."""
        await self._guard.tell("model_request", model_id=find_model_name(event))

    async def after_model(self, event: AfterModelCallEvent) -> None:
        """Tell that the model has answered."""
        reason = None if event.stop_response is None else event.stop_response.stop_reason
        await self._guard.tell("model_response", model_id=find_model_name(event), finish_reason=reason)

    async def after_run(self, event: AfterInvocationEvent) -> None:
        """Tell that the run has ended."""
        result = event.result
        if result is None:
            await self._guard.tell("stop_failure", error="the run has ended without a result")
        else:
            await self._guard.tell("stop", finish_reason=result.stop_reason, last_assistant_message=str(result))


def find_model_name(event: BeforeModelCallEvent | AfterModelCallEvent) -> str:
    return type(event.agent.model).__name__
