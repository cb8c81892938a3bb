"""Each host's own documents in: what is fired, in canonical words, with the host's own kept beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hooklatch.core.payload import Payload, PayloadError
from hooklatch.hosts.find import find_host
from hooklatch.hosts.host import HostFire, UnreadableError
from hooklatch_worker.author.tools import KINDS
from support.repository import RECORDED, TESTS
from support.tables import table

DATA = TESTS / "data"
FOLDERS = [
    ("claude-code", RECORDED), ("codex", DATA / "codex-0.169.0"), ("gemini", DATA / "gemini-cli-0.61.0"),
    ("copilot", DATA / "copilot-cli-1.0.102-camel"), ("copilot", DATA / "copilot-cli-1.0.102-pascal"),
]  # fmt: skip
LINES = [
    (host, file.stem, line)
    for host, folder in FOLDERS
    for file in sorted(Path(folder).glob("*.jsonl"))
    for line in file.read_bytes().splitlines()
]


def requested(host: str, event: str, document: object, **environ: str) -> HostFire:
    adapter = find_host(host)
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return adapter.make_fire(adapter.read(event, raw, environ))


def payload_of(request: HostFire) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.json.decode(request.params.payload)
    return payload


@table(("host", "name", "line"), LINES)
def test_each_recorded_document_is_fired_whole(host: str, name: str, line: bytes) -> None:
    native = find_host(host).read(name, line, {})
    if not native.event:
        return

    request = find_host(host).make_fire(native)

    sent, document = payload_of(request), json.loads(line)
    assert {key: sent[key] for key in document} == document
    assert request.params.envelope.host == host
    assert request.params.envelope.session_id


@table(("host", "name", "line"), LINES)
def test_each_recorded_tool_call_says_what_it_does(host: str, name: str, line: bytes) -> None:
    native = find_host(host).read(name, line, {})
    if "tool" not in native.event or native.event == "post_tool_batch":
        return

    sent = payload_of(find_host(host).make_fire(native))

    assert sent["tool_kind"] in KINDS - {"other"} or sent["tool_name"] in (
        "ToolSearch",
        "TaskCreate",
        "TaskUpdate",
        "EnterWorktree",
        "Skill",
    ), sent["tool_name"]
    assert isinstance(sent["tool_args"], dict)


OF_THE_HOST = ("ToolSearch", "TaskCreate", "TaskUpdate", "EnterWorktree", "Skill")  # they touch nothing outside it
SHELL = {"tool_kind": "shell", "tool_args": {"command": "ls"}}
TOOLS = [
    ("claude-code", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}, SHELL),
    ("codex", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}, SHELL),
    ("gemini", "BeforeTool", {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}}, SHELL),
    ("qwen", "PreToolUse", {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}}, SHELL),
    ("copilot", "preToolUse", {"toolName": "bash", "toolArgs": {"command": "ls"}}, {**SHELL, "tool_name": "bash"}),
    ("copilot", "preToolUse", {"toolName": "bash", "toolArgs": '{"command":"ls"}'},
     {**SHELL, "tool_input": {"command": "ls"}}),
    ("copilot", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}, SHELL),
    ("cursor", "preToolUse", {"tool_name": "Shell", "tool_input": {"command": "ls"}}, SHELL),
    ("cursor", "beforeShellExecution", {"command": "ls"}, {**SHELL, "tool_name": "Shell"}),
    ("opencode", "tool.execute.before", {"tool": "bash", "args": {"command": "ls"}}, {**SHELL, "tool_name": "bash"}),
    ("generic", "pre_tool_use", {"payload": {"tool_name": "bash", "tool_input": {"command": "ls"}}}, SHELL),
    ("kimi", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_call_id": "a"}, SHELL),
    ("grok", "PreToolUse", {"tool_name": "run_terminal_command", "tool_input": {"command": "ls"}}, SHELL),
    ("letta", "PreToolUse", {"event_type": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}, SHELL),
    ("auggie", "PreToolUse", {"tool_name": "launch-process", "tool_input": {"command": "ls"}}, SHELL),
    ("droid", "PreToolUse", {"tool_name": "Execute", "tool_input": {"command": "ls"}}, SHELL),
    ("goose", "PreToolUse", {"event": "PreToolUse", "tool_name": "developer__shell", "tool_input": {"command": "ls"}},
     {**SHELL, "tool_name": "developer__shell"}),
    ("cline", "PreToolUse", {"hookName": "tool_call", "tool_call": {
        "id": "a", "name": "run_commands", "input": {"commands": ["ls"]}}}, {**SHELL, "tool_name": "run_commands"}),
    ("cline", "PreToolUse", {"hookName": "tool_call", "tool_call": {
        "name": "run_commands", "input": {"commands": ["cd x", {"command": "rm", "args": ["a b"]}]}}},
     {"tool_kind": "shell", "tool_args": {"command": "cd x\nrm 'a b'"}}),
    ("copilot", "preToolUse", {"toolName": "create", "toolArgs": {"path": "/f", "file_text": "t"}},
     {"tool_kind": "write", "tool_args": {"path": "/f", "content": "t"}}),
    ("copilot", "PreToolUse", {"tool_name": "Edit", "tool_input": {"path": "/f", "old_str": "a", "new_str": "b"}},
     {"tool_kind": "edit", "tool_args": {"path": "/f", "paths": ["/f"], "old": "a", "new": "b"}}),
    ("opencode", "tool.execute.before", {"tool": "read", "args": {"filePath": "/f"}},
     {"tool_kind": "read", "tool_args": {"path": "/f"}}),
    ("cursor", "beforeReadFile", {"file_path": "/f", "content": "c"},
     {"tool_kind": "read", "tool_args": {"path": "/f"}, "tool_name": "Read"}),
    ("codex", "PreToolUse",
     {"tool_name": "apply_patch", "tool_input": {
         "command": "*** Begin Patch\n*** Add File: a.txt\n+x\n*** Update File: b.txt\n*** End Patch"}},
     {"tool_kind": "edit", "tool_args": {
         "patch": "*** Begin Patch\n*** Add File: a.txt\n+x\n*** Update File: b.txt\n*** End Patch",
         "paths": ["a.txt", "b.txt"]}}),
    ("codex", "PreToolUse", {"tool_name": "spawn_agent", "tool_input": {"message": "m", "agent_type": "t"}},
     {"tool_kind": "subagent", "tool_args": {"prompt": "m", "type": "t"}}),
    ("claude-code", "PreToolUse", {"tool_name": "WebFetch", "tool_input": {"url": "http://x", "prompt": "p"}},
     {"tool_kind": "fetch", "tool_args": {"url": "http://x", "prompt": "p"}}),
]  # fmt: skip


@table(("host", "event", "document", "expected"), TOOLS)
def test_a_tool_is_said_in_the_same_words_everywhere(
    host: str, event: str, document: dict[str, Any], expected: dict[str, Any]
) -> None:
    sent = payload_of(requested(host, event, document))

    assert {key: sent[key] for key in expected} == expected


MCP = {"server": "memory", "tool": "create", "arguments": {"a": 1}}
NAMELESS = {"server": "", "tool": "", "arguments": {"a": 1}}
MCP_TOOLS = [
    ("claude-code", "PreToolUse", {"tool_name": "mcp__memory__create", "tool_input": {"a": 1}}, MCP),
    ("codex", "PreToolUse", {"tool_name": "mcp__memory__create", "tool_input": {"a": 1}}, MCP),
    ("gemini", "BeforeTool", {"tool_name": "mcp_memory_create", "tool_input": {"a": 1},
                              "mcp_context": {"server_name": "memory", "tool_name": "create"}}, MCP),
    ("gemini", "BeforeTool", {"tool_name": "mcp_my_memory_create", "tool_input": {"a": 1}}, NAMELESS),
    ("copilot", "preToolUse", {"toolName": "memory-create", "toolArgs": {"a": 1}}, MCP),
    ("copilot", "preToolUse", {"toolName": "my-memory-create", "toolArgs": {"a": 1}}, NAMELESS),
    ("opencode", "tool.execute.before", {"tool": "memory_create", "args": {"a": 1}}, MCP),
    ("cursor", "beforeMCPExecution", {"tool_name": "create", "tool_input": '{"a":1}'}, {**MCP, "server": ""}),
    ("cursor", "preToolUse", {"tool_name": "MCP:create", "tool_input": {"a": 1}}, {**MCP, "server": ""}),
    ("goose", "PreToolUse", {"tool_name": "memory__create", "tool_input": {"a": 1}}, MCP),
    ("auggie", "PreToolUse", {"tool_name": "create", "tool_input": {"a": 1}, "is_mcp_tool": True},
     {**MCP, "server": ""}),
]  # fmt: skip


@table(("host", "event", "document", "expected"), MCP_TOOLS)
def test_an_mcp_tool_names_its_server_where_that_is_certain(
    host: str, event: str, document: dict[str, Any], expected: dict[str, Any]
) -> None:
    sent = payload_of(requested(host, event, document))

    assert sent["tool_kind"] == "mcp"
    assert sent["tool_args"] == expected


UNCLEAR = [
    ("grok", "PreToolUse", {"tool_name": "run_terminal_command", "tool_input": {"command": "ls"},
                            "toolInputTruncated": True}),
    ("cline", "PreToolUse", {"hookName": "tool_call", "tool_call": {
        "name": "run_commands", "input": {"commands": ["ls"], "command": "rm"}}}),
    ("cline", "PreToolUse", {"hookName": "tool_call", "tool_call": {
        "name": "run_commands", "input": {"commands": [{"command": "ls", "cwd": "/"}]}}}),
    ("cline", "PreToolUse", {"hookName": "tool_call", "tool_call": {"name": "run_commands", "input": ["ls"]}}),
    ("claude-code", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls", "cmd": "rm"}}),
    ("claude-code", "PreToolUse", {"tool_name": "Bash", "tool_input": {"description": "d"}}),
    ("claude-code", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": 7}}),
    ("claude-code", "PreToolUse", {"tool_name": "Bash", "tool_input": "ls"}),
    ("claude-code", "PreToolUse", {"tool_name": "Read", "tool_input": {"file_path": ["/f"]}}),
    ("codex", "PreToolUse", {"tool_name": "apply_patch", "tool_input": {"command": "no patch"}}),
    ("copilot", "preToolUse", {"toolName": "bash", "toolArgs": '{"command":"ls","command":"rm"}'}),
    ("copilot", "preToolUse", {"toolName": "bash", "toolArgs": "ls"}),
    ("copilot", "preToolUse", {"toolName": "", "toolArgs": '{"command":"ls"}'}),
    ("copilot", "preToolUse", {"toolName": 7, "toolArgs": '{"command":"ls"}'}),
    ("cursor", "beforeMCPExecution", {"tool_name": "create", "tool_input": "[1]"}),
    ("cursor", "beforeMCPExecution", {"tool_name": "", "tool_input": '{"a":1}'}),
    ("cursor", "beforeShellExecution", {}),
    ("generic", "pre_tool_use", {"payload": []}),
    ("generic", "pre_tool_use", {"payload": {"tool_name": "Bash", "tool_input": 7}}),
    ("claude-code", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}, "session_id": "s" * 201}),
]  # fmt: skip


@table(("host", "event", "document"), UNCLEAR)
def test_a_tool_that_could_do_two_things_is_not_judged(host: str, event: str, document: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError) as caught:
        requested(host, event, document)

    assert caught.value.event == event


def test_a_name_that_is_empty_does_not_hide_another_spelling() -> None:
    document = {"tool_name": "", "toolName": "bash", "toolArgs": '{"command":"ls"}'}

    sent = payload_of(requested("copilot", "preToolUse", document))

    assert (sent["tool_kind"], sent["tool_args"]) == ("shell", {"command": "ls"})


def test_values_arrive_as_they_were_written() -> None:
    raw = b'{"hook_event_name":"Stop",\n "x": {"n":12345678901234567890.10 , "s":"\\u00e9"}}'

    request = requested("claude-code", "Stop", raw)

    assert b'"x":{"n":12345678901234567890.10 , "s":"\\u00e9"}' in bytes(request.params.payload)


def test_a_byte_order_mark_is_no_obstacle() -> None:
    assert requested("cursor", "stop", b'\xef\xbb\xbf{"status":"completed"}').params.event == "stop"


def test_a_name_that_the_host_gave_the_tool_cannot_choose_its_kind() -> None:
    document = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_kind": "read", "tool_args": {}}

    assert payload_of(requested("claude-code", "PreToolUse", document)) == {**document, **SHELL}


# --- a rewrite


def test_a_rewritten_input_changes_what_is_said_of_it() -> None:
    payload = Payload(bytes(requested("claude-code", *bash("ls")).params.payload))

    rewritten = payload.with_patch({"tool_input": msgspec.Raw(b'{"command":"rm"}')})

    assert msgspec.json.decode(rewritten.fields["tool_args"]) == {"command": "rm"}


def test_a_tool_put_in_anothers_place_has_its_own_kind() -> None:
    payload = Payload(bytes(requested("claude-code", *bash("ls")).params.payload))

    changed = {"tool_name": msgspec.Raw(b'"Read"'), "tool_input": msgspec.Raw(b'{"file_path":"/f"}')}

    assert msgspec.json.decode(payload.with_patch(changed).fields["tool_kind"]) == "read"


@table("changed", [b'{"cmd":"a","command":"b"}', b"{}", b'"rm"', b"[]"])
def test_an_input_rewritten_to_what_cannot_be_judged_is_a_fault(changed: bytes) -> None:
    payload = Payload(bytes(requested("claude-code", *bash("ls")).params.payload))

    with pytest.raises(PayloadError):
        payload.with_patch({"tool_input": msgspec.Raw(changed)})


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": command}}


# --- who and where


IDENTITIES = [
    ("claude-code", "Stop", {"session_id": "s", "prompt_id": "p", "agent_id": "a", "agent_type": "t", "cwd": "/c"},
     {"session_id": "s", "turn": "p", "agent_id": "a", "agent_type": "t", "cwd": "/c"}),
    ("claude-code", "Stop", {"cwd": 7}, {"cwd": ""}),
    ("claude-code", "Stop", {"transcript_path": "/home/me/.claude/projects/-home-me-a/s.jsonl"},
     {"began_as": "-home-me-a"}),
    ("claude-code", "Stop", {"transcript_path": "/srv/projects/s.jsonl"}, {"began_as": None}),
    ("codex", "Stop", {"session_id": "s", "turn_id": "t"}, {"session_id": "s", "turn": "t"}),
    ("copilot", "preToolUse", {"sessionId": "s", "toolName": "view", "toolArgs": {"path": "/"}}, {"session_id": "s"}),
    ("copilot", "agentStop", {"sessionId": "a", "agentId": "a", "agentType": "t", "parentAgentId": "s"},
     {"session_id": "s", "agent_id": "a", "agent_type": "t"}),
    ("copilot", "Stop", {"session_id": "a", "agent_id": "a", "agent_type": "t", "parent_agent_id": "s"},
     {"session_id": "s", "agent_id": "a", "agent_type": "t"}),
    ("cursor", "stop", {"conversation_id": "c", "generation_id": "g", "session_id": "s", "workspace_roots": ["/w"]},
     {"session_id": "c", "turn": "g", "cwd": "/w"}),
    ("opencode", "session.idle", {"sessionID": "s", "parentID": "p", "directory": "/d"},
     {"session_id": "s", "parent_session_id": "p", "cwd": "/d", "began_in": "/d"}),
    ("generic", "stop", {"payload": {}, "envelope": {"session_id": "s", "turn": 4, "host": "mine"}},
     {"session_id": "s", "turn": 4, "host": "mine"}),
]  # fmt: skip


@table(("host", "event", "document", "expected"), IDENTITIES)
def test_the_envelope_says_who_and_where(
    host: str, event: str, document: dict[str, Any], expected: dict[str, Any]
) -> None:
    envelope = requested(host, event, document).params.envelope

    assert {key: getattr(envelope, key) for key in expected} == expected


@table(
    ("host", "event", "variable"),
    [
        ("claude-code", "Stop", "CLAUDE_PROJECT_DIR"), ("gemini", "SessionEnd", "GEMINI_PROJECT_DIR"),
        ("qwen", "Stop", "QWEN_PROJECT_DIR"), ("copilot", "sessionEnd", "COPILOT_PROJECT_DIR"),
        ("cursor", "stop", "CURSOR_PROJECT_DIR"),
    ],
)  # fmt: skip
def test_the_environment_says_where_the_host_was_started(host: str, event: str, variable: str) -> None:
    assert requested(host, event, {}, **{variable: "/p"}).params.envelope.began_in == "/p"
    assert requested(host, event, {}, **{variable: ""}).params.envelope.began_in is None


def test_both_ends_of_a_call_without_an_id_have_the_same_key() -> None:
    before = requested("copilot", "preToolUse", {"sessionId": "s", "toolName": "bash", "toolArgs": {"command": "ls"}})
    asked = requested(
        "copilot",
        "permissionRequest",
        {"hookName": "permissionRequest", "sessionId": "s", "toolName": "bash", "toolInput": {"command": "ls"}},
    )
    after = requested(
        "copilot",
        "PostToolUse",
        {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_result": {}},
    )
    other = requested("copilot", "preToolUse", {"sessionId": "s", "toolName": "bash", "toolArgs": {"command": "rm"}})

    assert before.call_key == asked.call_key == after.call_key != other.call_key
    assert (before.call, asked.call, after.call) == ("begins", "goes_on", "ends")


def test_cursor_tells_one_call_in_two_ways() -> None:
    one = {"conversation_id": "c", "generation_id": "g"}
    first = requested("cursor", "preToolUse", {**one, "tool_name": "Shell", "tool_input": {"command": "ls"}})
    second = requested("cursor", "beforeShellExecution", {**one, "command": "ls"})
    another = requested("cursor", "beforeShellExecution", {**one, "command": "rm"})
    later = requested("cursor", "beforeShellExecution", {**one, "generation_id": "h", "command": "ls"})

    assert first.same_call == second.same_call
    assert first.same_call not in (another.same_call, later.same_call)


# --- which event


def test_a_document_for_another_event_is_refused_as_the_gate_that_is_involved() -> None:
    for installed, said in (("PreToolUse", "Stop"), ("Stop", "PreToolUse")):
        with pytest.raises(UnreadableError) as caught:
            find_host("codex").read(installed, json.dumps({"hook_event_name": said}).encode(), {})

        assert caught.value.event == "PreToolUse"


def test_copilots_spellings_of_one_event_are_one() -> None:
    for installed, said in (
        ("notification", "Notification"),
        ("agentStop", "Stop"),
        ("PermissionRequest", "permissionRequest"),
    ):
        document = {"hook_event_name": said, "sessionId": "s", "toolName": "view", "toolArgs": {"path": "/"}}
        assert find_host("copilot").read(installed, json.dumps(document).encode(), {}).name == installed

    with pytest.raises(UnreadableError):
        find_host("copilot").read("preToolUse", b'{"hook_event_name":"PostToolUse"}', {})


def test_a_failed_tool_of_gemini_is_a_failure() -> None:
    document = {"tool_name": "read_file", "tool_input": {"file_path": "/f"}, "tool_response": {"error": "gone"}}

    request = requested("gemini", "AfterTool", document)

    assert (request.params.event, request.after) == ("tool_result", "post_tool_use_failure")
    assert payload_of(request)["error"] == "gone"
