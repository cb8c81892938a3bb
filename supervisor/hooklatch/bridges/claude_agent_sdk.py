"""claude-agent-sdk: the callbacks of its HookMatchers, and can_use_tool.  Knows their forms; decides nothing.

Claude Code takes a callback that fails for one without an opinion, unless its matcher says `on_failure="block"`: so
these do, and a CLI too old to honour that is refused by the SDK itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from hooklatch.bridges.guard import Guard, make_missing_sdk_error
from hooklatch.bridges.rulings import AskRuling, ProceedRuling, RefuseRuling, Ruling, SdkAbilities
from hooklatch.hosts.withholding import has_shape, say_in_shape

try:
    from claude_agent_sdk import (
        CanUseTool,
        ClaudeAgentOptions,
        HookContext,
        HookInput,
        HookJSONOutput,
        HookMatcher,
        PermissionResult,
        PermissionResultAllow,
        PermissionResultDeny,
        ToolPermissionContext,
    )
    from claude_agent_sdk.types import HookEvent
except ModuleNotFoundError as error:
    raise make_missing_sdk_error("claude-agent-sdk", error) from error

__all__ = ["can_use_tool", "guarded", "hooks"]

HOOK: Final = SdkAbilities(name="Claude Code", rewrites=True, asks=True, asks_about_rewrites=True)
RESULT: Final = SdkAbilities(name="Claude Code", rewrites=True)
RESULT_KEYS: Final = ("tool_name", "tool_input", "tool_use_id", "duration_ms")
PROMPT: Final = SdkAbilities(name="Claude Code")
MARGIN: Final = 5.0  # seconds between our refusal and the end of the host's patience
# What each event is told as, and which of its keys go along.
TOLD: Final[Mapping[HookEvent, tuple[str, tuple[str, ...]]]] = {
    "PostToolUseFailure": (
        "post_tool_use_failure", ("tool_name", "tool_input", "tool_use_id", "error", "is_interrupt"),
    ),
    "Stop": ("stop", ("last_assistant_message", "stop_hook_active")),
    "SubagentStop": ("subagent_stop", ("agent_type",)),
    "Notification": ("notification", ("message", "notification_type", "title")),
}  # fmt: skip
Callback = Callable[[HookInput, str | None, HookContext], Awaitable[HookJSONOutput]]


def guarded(guard: Guard, options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
    """Return the options with the guard's hooks beside those that are there already."""
    options = options or ClaudeAgentOptions()
    ours, theirs = hooks(guard), options.hooks or {}
    merged = {event: [*ours.get(event, ()), *theirs.get(event, ())] for event in (*ours, *theirs)}
    return replace(options, hooks=merged)


def hooks(guard: Guard) -> dict[HookEvent, list[HookMatcher]]:
    """Return what `ClaudeAgentOptions(hooks=...)` takes: gates on every tool and prompt, notifications on the rest."""

    async def before_tool(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
        fields = cast("Mapping[str, Any]", given)
        ruling = await guard.before_tool(
            fields["tool_name"], fields["tool_input"], tool_use_id or fields.get("tool_use_id"), HOOK,
            agent_id=fields.get("agent_id"), agent_type=fields.get("agent_type"),
        )  # fmt: skip
        return cast("HookJSONOutput", build_tool_answer(ruling))

    async def before_prompt(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
        ruling = await guard.before_prompt(cast("Mapping[str, Any]", given)["prompt"], PROMPT)
        if isinstance(ruling, ProceedRuling):
            return {}
        stop = (
            {"continue_": False, "stopReason": ruling.text} if isinstance(ruling, RefuseRuling) and ruling.halts else {}
        )
        return cast("HookJSONOutput", {"decision": "block", "reason": ruling.text, **stop})

    async def after_tool(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
        fields = cast("Mapping[str, Any]", given)
        payload = {key: fields[key] for key in RESULT_KEYS if key in fields}
        ruling = await guard.after_tool(fields["tool_response"], RESULT, **payload)
        return cast("HookJSONOutput", build_result_answer(ruling, fields))

    found: dict[HookEvent, list[HookMatcher]] = {
        "PreToolUse": [make_gate(before_tool, guard.limit("pre_tool_use"))],
        "PostToolUse": [make_gate(after_tool, guard.limit("tool_result"))],
        "UserPromptSubmit": [make_gate(before_prompt, guard.limit("user_prompt_submit"))],
    }
    for event, (name, keys) in TOLD.items():
        found[event] = [HookMatcher(hooks=[make_notification(guard, name, keys)])]
    return found


def make_gate(callback: Callback, limit: float) -> HookMatcher:
    return HookMatcher(hooks=[callback], timeout=limit + MARGIN, on_failure="block")


def make_notification(guard: Guard, event: str, keys: tuple[str, ...]) -> Callback:
    async def tell(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
        fields = cast("Mapping[str, Any]", given)
        await guard.tell(event, **{key: fields[key] for key in keys if key in fields})
        return {}

    return tell


def build_tool_answer(ruling: ProceedRuling | AskRuling | RefuseRuling) -> dict[str, Any]:
    specific: dict[str, Any] = {"hookEventName": "PreToolUse"}
    match ruling:
        case RefuseRuling(text=text, halts=halts):
            specific |= {"permissionDecision": "deny", "permissionDecisionReason": text}
            stop = {"continue_": False, "stopReason": text} if halts else {}
            return {"hookSpecificOutput": specific, **stop}
        case AskRuling(text=text, value=value, is_rewritten=is_rewritten):
            specific |= {"permissionDecision": "ask", "permissionDecisionReason": text}
        case ProceedRuling(value=value, is_rewritten=is_rewritten, is_approved=is_approved):
            if not is_rewritten and not is_approved:
                return {}
            specific |= {"permissionDecision": "allow"} if is_approved else {}
    specific |= {"updatedInput": value} if is_rewritten else {}
    return {"hookSpecificOutput": specific}


def build_result_answer(ruling: Ruling, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to PostToolUse: another result in the shape of the first one, since others are ignored."""
    response = fields["tool_response"]
    is_free = str(fields["tool_name"]).startswith("mcp__")  # in any shape
    if isinstance(ruling, ProceedRuling):
        if not ruling.is_rewritten:
            return {}
        if is_free or has_shape(response, ruling.value):
            return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": ruling.value}}
    text = "withheld by hooklatch: a hook changed its shape" if isinstance(ruling, ProceedRuling) else ruling.text
    stop = {"continue_": False, "stopReason": text} if isinstance(ruling, RefuseRuling) and ruling.halts else {}
    result = say_in_shape(response, text)
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": result}, **stop}


def can_use_tool(guard: Guard, ask: CanUseTool | None = None) -> CanUseTool:
    """Return what `ClaudeAgentOptions(can_use_tool=...)` takes: the hooks' allow is a permission, a deny refuses.

    Claude Code calls it only where it would ask a person.  A call that no hook allows goes to `ask`, with the input of
    the hooks, and is refused without `ask`.  It does not replace `hooks`, since most calls ask no person.
    """

    async def decide(name: str, tool_input: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        ruling = await guard.before_tool(name, tool_input, context.tool_use_id, HOOK, agent_id=context.agent_id)
        if isinstance(ruling, RefuseRuling):
            return PermissionResultDeny(message=ruling.text, interrupt=ruling.halts)
        if isinstance(ruling, ProceedRuling) and ruling.is_approved:
            return PermissionResultAllow(updated_input=ruling.value)
        if ask is None:
            why = ruling.text if isinstance(ruling, AskRuling) else "no hook allows it"
            return PermissionResultDeny(message=f"permission is needed, and no person can be asked here: {why}")
        answer = await ask(name, ruling.value, context)
        if isinstance(answer, PermissionResultAllow) and answer.updated_input is None:
            return replace(answer, updated_input=ruling.value)  # else the SDK takes the input as the model gave it
        return answer

    return decide
