"""OpenCode: a plugin inside the program, which speaks to the daemon itself (measured with 1.18.33).

The plugin sends the document that it was called with, and throws to refuse.  It is answered with one document:

    {"verdict": "pass"}                     go on; with "args", with these in place of the tool's own
    {"verdict": "deny", "reason": "..."}    throw an error with this text
    {}                                      at anything but a gate

Anything else, and no answer, is a refusal at a gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hooklatch.core.messages import Decision
from hooklatch.hosts.fitting import explained, patch_of
from hooklatch.hosts.host import HookOutput, Host, Native, NativeEvent, Tool, compact, gate, notice

__all__ = ["OpenCode"]

EVENTS: Final[dict[str, NativeEvent]] = {
    "tool.execute.before": gate("pre_tool_use", "", "tool_input"),
    "tool.execute.after": notice("post_tool_use", renamed={"tool_response": "output"}),
    "session.created": notice("session_start"),
    "session.idle": notice("stop"),
    "session.error": notice("stop_failure"),
    "session.compacted": notice("post_compact"),
    "session.deleted": notice("session_end"),
    "chat.message": notice("user_prompt_submit"),
    "permission.asked": notice("notification"),
}
SUBAGENT: Final = notice("subagent_started", renamed={"subagent_id": "sessionID"})  # a session below another


class OpenCode(Host):
    name = "opencode"
    title = "OpenCode"
    aliases = ("open-code",)
    events = EVENTS
    name_keys = ("event",)
    session_keys = ("sessionID",)
    turn_keys = ("messageID",)
    call_keys = ("callID",)
    agent_keys = ()
    agent_type_keys = ("agent",)
    parent_keys = ("parentID",)
    tool_keys = ("tool",)
    input_keys = ("args",)
    metadata_keys = ("worktree", "model", "agent")
    project_variables = ()

    def read(self, event: str | None, document: bytes, environ: Mapping[str, str]) -> Native:
        native = super().read(event, document, environ)
        if native.name == "session.created" and native.text("parentID") is not None:
            return msgspec.structs.replace(native, spec=SUBAGENT)
        return native

    def cwd(self, native: Native) -> str | None:
        value = native.document.get("cwd", native.document.get("directory"))
        return value if isinstance(value, str) or value is None else ""

    def envelope(self, native: Native) -> dict[str, Any]:
        said = super().envelope(native)
        if (root := native.text("worktree", "directory")) is not None:
            said["began_in"] = root
        return said

    def added(self, native: Native, tool: Tool | None) -> dict[str, Any]:
        added = super().added(native, tool)
        if native.event == "session_start":
            added.setdefault("source", "startup")
        if native.event == "notification":
            added.setdefault("notification_type", "permission_prompt")
        return added

    def known(self, native: Native, tool: Tool) -> Tool:
        tool = super().known(native, tool)
        if tool.kind == "other" and "_" in tool.name:  # server_tool; both may have underscores themselves
            server, _, name = tool.name.partition("_") if tool.name.count("_") == 1 else ("", "", "")
            return msgspec.structs.replace(tool, kind="mcp", server=server, tool=name)
        return tool

    def render(self, native: Native, decision: Decision) -> HookOutput:
        if not native.is_gate:
            return self.silence(native.name)
        if decision.verdict != "pass":
            return HookOutput(
                stdout=compact({"verdict": "deny", "reason": explained(decision) or "refused by hooklatch"})
            )
        said: dict[str, Any] = {"verdict": "pass"}
        if "tool_input" in (patch := patch_of(decision)):
            said["args"] = patch["tool_input"]
        return HookOutput(stdout=compact(said))

    def refusal(self, event: str | None, reason: str) -> HookOutput:
        return HookOutput(stdout=compact({"verdict": "deny", "reason": reason}))

    def silence(self, event: str | None) -> HookOutput:
        return HookOutput(stdout="{}\n")
