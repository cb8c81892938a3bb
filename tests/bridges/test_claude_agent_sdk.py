"""claude-agent-sdk: its own dispatcher calls the callbacks, as the control protocol of Claude Code would have it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

pytest.importorskip(
    "claude_agent_sdk", reason="the package is not installed: pip install 'hooklatch[claude-agent-sdk]'"
)

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    Transport,
)

from hooklatch.bridges.claude_agent_sdk import can_use_tool, guarded, hooks
from hooklatch.bridges.guard import open_guard
from support.bridged import REFUSALS, Bridged, example

pytestmark = pytest.mark.slow  # each file imports an SDK and starts workers


APPLIED = {"hook_on_failure_supported": True, "hooks_applied": True}


class Host(Transport):
    """Claude Code's side of the control protocol, as far as callbacks go."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[dict[str, Any]]] = {}
        self._to_sdk, self._from_us = anyio.create_memory_object_stream[dict[str, Any]](100)
        self._answers: dict[str, dict[str, Any]] = {}
        self._news = anyio.Event()
        self._count = 0

    async def connect(self) -> None: ...

    async def close(self) -> None:
        await self._to_sdk.aclose()
        await self._from_us.aclose()

    async def end_input(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        async def read() -> AsyncIterator[dict[str, Any]]:
            async for message in self._from_us:
                yield message

        return read()

    async def write(self, data: str) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            if message["type"] == "control_request":
                if message["request"]["subtype"] == "initialize":
                    self.callbacks = message["request"]["hooks"] or {}
                response = {"subtype": "success", "request_id": message["request_id"], "response": APPLIED}
                await self._to_sdk.send({"type": "control_response", "response": response})
            elif message["type"] == "control_response":
                self._answers[message["response"]["request_id"]] = message["response"]
                self._news.set()
                self._news = anyio.Event()

    async def ask(self, **request: Any) -> dict[str, Any]:
        """Make a request of Claude Code, and return the SDK's response."""
        self._count += 1
        identity = f"ours-{self._count}"
        await self._to_sdk.send({"type": "control_request", "request_id": identity, "request": request})
        while identity not in self._answers:
            await self._news.wait()
        return self._answers.pop(identity)

    async def fire(self, event: str, **fields: Any) -> dict[str, Any]:
        """Fire a hook event, and return the output of the first callback on it."""
        (matcher,) = self.callbacks[event]
        given = {"hook_event_name": event, "session_id": "s", "transcript_path": "/t", "cwd": "/", **fields}
        (callback,) = matcher["hookCallbackIds"]
        response = await self.ask(
            subtype="hook_callback", callback_id=callback, input=given, tool_use_id=fields.get("tool_use_id")
        )
        assert response["subtype"] == "success", response
        return response["response"]

    async def tool(self, word: str) -> dict[str, Any]:
        return await self.fire("PreToolUse", tool_name="Speak", tool_input={"word": word}, tool_use_id=f"toolu_{word}")


def specific(answer: dict[str, Any]) -> dict[str, Any]:
    return answer["hookSpecificOutput"]


def play(runtime_dir: str, script: Any, options: ClaudeAgentOptions | None = None) -> None:
    async def main() -> None:
        host = Host()
        async with (
            open_guard(runtime_dir=runtime_dir) as guard,
            ClaudeSDKClient(guarded(guard, options), transport=host),
        ):
            await script(host)

    anyio.run(main)


def test_each_call_at_the_same_time_gets_its_own_verdict(place: Bridged) -> None:
    answers: dict[str, dict[str, Any]] = {}

    async def script(host: Host) -> None:
        async def ask(word: str) -> None:
            answers[word] = await host.tool(word)

        async with anyio.create_task_group() as group:
            for word in ("hello", "allow", "rewrite", "ask", *REFUSALS):
                group.start_soon(ask, word)

    play(place.runtime_dir, script)

    assert answers["hello"] == {}
    assert specific(answers["allow"]) == {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    assert specific(answers["rewrite"]) == {"hookEventName": "PreToolUse", "updatedInput": {"word": "rewritten"}}
    assert specific(answers["ask"])["permissionDecision"] == "ask"
    for word, text in REFUSALS.items():
        assert specific(answers[word])["permissionDecision"] == "deny"
        assert text in specific(answers[word])["permissionDecisionReason"]
        assert ("continue" in answers[word]) is (word == "halt")


def test_gates_say_that_a_failure_blocks_and_outlast_the_guard(place: Bridged) -> None:
    found: dict[str, Any] = {}

    async def script(host: Host) -> None:
        found.update(host.callbacks)

    play(place.runtime_dir, script)

    for event in ("PreToolUse", "UserPromptSubmit"):
        (matcher,) = found[event]
        assert matcher["onFailure"] == "block"
        assert matcher["matcher"] is None
        assert matcher["timeout"] > 12


def test_prompts_and_notifications(place: Bridged) -> None:
    answers: list[dict[str, Any]] = []

    async def script(host: Host) -> None:
        answers.append(await host.fire("UserPromptSubmit", prompt="a forbidden thing"))
        answers.append(await host.fire("UserPromptSubmit", prompt="a thing"))
        answers.append(await host.fire("PostToolUse", tool_name="Speak", tool_input={}, tool_response={"a": 1}))
        answers.append(await host.fire("Stop", stop_hook_active=False))

    play(place.runtime_dir, script)

    assert answers == [{"decision": "block", "reason": "that is not discussed here"}, {}, {}, {}]
    assert place.wait_told("post_tool_use")["tool_response"] == {"a": 1}
    assert place.wait_told("stop")


def test_without_a_daemon_tools_and_prompts_are_refused(nowhere: str) -> None:
    answers: list[dict[str, Any]] = []

    async def script(host: Host) -> None:
        answers.append(await host.tool("hello"))
        answers.append(await host.fire("UserPromptSubmit", prompt="a thing"))
        answers.append(await host.fire("Stop", stop_hook_active=False))

    play(nowhere, script)

    assert "Not run: " in specific(answers[0])["permissionDecisionReason"]
    assert answers[1]["decision"] == "block"
    assert answers[2] == {}


def test_input_that_is_not_what_the_protocol_says_is_an_error_which_blocks(place: Bridged) -> None:
    responses: list[dict[str, Any]] = []

    async def script(host: Host) -> None:
        (matcher,) = host.callbacks["PreToolUse"]
        (callback,) = matcher["hookCallbackIds"]
        responses.append(await host.ask(subtype="hook_callback", callback_id=callback, input={}, tool_use_id=None))

    play(place.runtime_dir, script)

    assert responses[0]["subtype"] == "error"


async def test_hooks_of_the_program_stay(place: Bridged) -> None:
    async with open_guard(runtime_dir=place.runtime_dir) as guard:
        mine = hooks(guard)["Stop"]
        merged = guarded(guard, ClaudeAgentOptions(hooks={"Stop": mine, "PreCompact": mine}))

    assert merged.hooks is not None
    assert len(merged.hooks["Stop"]) == 2
    assert merged.hooks["PreCompact"] == mine


@pytest.mark.parametrize(
    ("word", "person", "expected"),
    [
        ("allow", None, ({"word": "allow"}, "")),
        ("hello", None, (None, "no person can be asked here: no hook allows it")),
        ("ask", None, (None, "somebody should look at this")),
        ("deny", True, (None, "not said here")),
        ("crash", True, (None, "")),
        ("hello", True, ({"word": "hello"}, "")),
        ("ask", True, ({"word": "ask"}, "")),
        ("rewrite", True, ({"word": "rewritten"}, "")),
        ("rewrite", False, (None, "I said no")),
    ],
)
async def test_a_permission_is_what_hooks_or_a_person_gives(
    place: Bridged, word: str, person: bool | None, expected: tuple[Any, str]
) -> None:
    shown: list[Any] = []

    async def ask(name: str, tool_input: dict[str, Any], context: ToolPermissionContext) -> Any:
        shown.append(tool_input)
        return PermissionResultAllow() if person else PermissionResultDeny(message="I said no")

    async with open_guard(runtime_dir=place.runtime_dir) as guard:
        decide = can_use_tool(guard, None if person is None else ask)
        answer = await decide("Speak", {"word": word}, ToolPermissionContext(tool_use_id="toolu_1"))

    allowed, text = expected
    if allowed is None:
        assert isinstance(answer, PermissionResultDeny)
        assert text in answer.message
    else:
        assert isinstance(answer, PermissionResultAllow)
        assert answer.updated_input == allowed


def test_the_example_guards_tools_and_permissions(place: Bridged) -> None:
    answers: list[Any] = []

    async def main() -> None:
        host = Host()
        async with (
            open_guard(runtime_dir=place.runtime_dir) as guard,
            ClaudeSDKClient(example("claude_agent").options(guard), transport=host),
        ):
            given = {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}}
            answers.append(await host.fire("PreToolUse", **given, tool_use_id="toolu_1"))
            answers.append(
                await host.ask(subtype="can_use_tool", tool_name="Bash", input={"command": "ls"}, tool_use_id="toolu_2")
            )

    anyio.run(main)

    assert specific(answers[0])["permissionDecisionReason"] == "name the files to remove"
    assert answers[1]["response"]["behavior"] == "deny"
