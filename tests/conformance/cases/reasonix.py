"""The rows of Reasonix that its own `loadHooks` and `runHooks` show, through the TypeScript client.  Plain data.

Payloads name a folder that is not the session's.  Files are the driver's own, below PLACE.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from conformance.driving import ABSENT, ANY, Case, Command, Step, has, part, step

__all__ = ["CASES", "FILES", "LANGUAGE", "WIRE", "opening"]

LANGUAGE: Final = "typescript"
FILES: Final[dict[str, str]] = {}

APP = {"$place": "app"}
EDIT = {"toolName": "edit_file", "toolArgs": {"path": "a.ts"}}
SCOPED = {"scope": "project", "source": "/srv/app/.reasonix/settings.json"}
PROJECT, HOME = "project/.reasonix/settings.json", "home/.reasonix/settings.json"
PLACES = {"projectRoot": {"$place": "project"}, "homeDir": {"$place": "home"}}


def opening(path: str, folder: str) -> list[Command]:
    """Return the commands that open a session at a socket, in a folder unlike those that the rows name."""
    return [{"do": "open", "path": path, "dialect": "reasonix", "cwd": folder, "session_id": None}]


def native(call: str, **others: Any) -> Command:
    return {"do": "native", "call": call, **others}


def files(**texts: Any) -> Step:
    return step(
        native("files", write={"app/file": "", **{name.replace("__", "/"): text for name, text in texts.items()}})
    )


def written(**texts: Any) -> Step:
    """Write settings files of the project and of the person."""
    named = {"project": PROJECT, "home": HOME}
    write = {
        named[name]: text if isinstance(text, str) or "$buffer" in text else json.dumps(text)
        for name, text in texts.items()
    }
    return step(native("files", write={"app/file": "", **write}))


def loaded(*gives: Any) -> Step:
    return step(native("load", places=PLACES), gives=list(gives))


def run(event: str, *entries: Any, gives: Any, **payload: Any) -> Step:
    """Run hooks as settings have them for one event; without entries, those that were loaded."""
    hooks = [{"event": event, **SCOPED, **entry} for entry in entries] or {"$loaded": True}
    about = EDIT if "Tool" in event or "Permission" in event else {}
    fired = {"event": event, "cwd": APP, **(payload or about)}
    return step(native("runHooks", arguments=[{"hooks": hooks, "payload": fired}]), gives=gives)


def report(*decisions: str, blocked: bool = False, **more: Any) -> Any:
    """Return what stands for a report with these decisions of hooks."""
    outcomes = [part(decision=decision) for decision in decisions]
    return part(blocked=blocked, outcomes=outcomes, **more)


def outcome(decision: str, **keys: Any) -> Any:
    return part(decision=decision, **keys)


def of(*outcomes: Any, blocked: bool = False, **more: Any) -> Any:
    return part(blocked=blocked, outcomes=list(outcomes), **more)


def case(*steps: Step, **options: Any) -> Case:
    return Case((files(), *steps), options)


def passes(event: str, match: str | None, tool: str, *, fires: bool) -> Step:
    entry = {"command": "true"} | ({} if match is None else {"match": match})
    payload: dict[str, Any] = {"prompt": tool} if event == "UserPromptSubmit" else {"toolName": tool, "toolArgs": {}}
    return run(event, entry, gives=report(*(["pass"] if fires else [])), **payload)


def claude(printed: str, event: str) -> list[Step]:
    """Load one hook in Claude Code's form that prints this, as a file has it."""
    words = ["-c", "import sys; sys.stdout.write(sys.argv[1])", printed]
    entry = {"command": sys.executable, "args": words, "payloadFormat": "claude"}
    return [written(project={"hooks": {event: [entry]}}), step(native("load", places=PLACES))]


def specific(event: str, **answer: object) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **answer}})


def seen(event: str, gives: Any, **payload: Any) -> list[Step]:
    """Show what a hook in Claude Code's form reads."""
    entry = {"command": "cat", "payloadFormat": "claude"}
    step_of = run(event, gives=gives, **payload)
    return [written(project={"hooks": {event: [entry]}}), step(native("load", places=PLACES)), step_of]


def line(scope: str, decision: str, command: str, detail: str, **more: Any) -> Step:
    shown = {
        "hook": {"event": "PostToolUse", "command": command, "scope": scope, "source": ""},
        "decision": decision, "exitCode": 0 if decision == "pass" else 2, "stdout": "", "stderr": detail, "durationMs": 1,
        **more,
    }  # fmt: skip
    return step({"do": "format", "outcome": shown}, gives=more_of(scope, decision, command, detail, more))


def more_of(scope: str, decision: str, command: str, detail: str, more: dict[str, Any]) -> str:
    if decision == "pass":
        return ""
    cut = " (output truncated at 256KB)" if more.get("truncated") else ""
    short = command if len(command) <= 60 else f"{command[:60]}…"
    return f"hook [{scope}/PostToolUse] {short} — {decision}{cut}: {detail}"


SLOW = {"command": "sleep 30", "timeout": 200}
UNSTARTED = {"command": "true", "cwd": "/nowhere"}
LONG = "exit 2 # " + "x" * 200
INPUTS: list[Any] = [{"path": "a.ts", "content": "x"}, {"path": "/abs/a.ts"}, {"ids": ["1"], "timeout": 3}, {}, "text"]
WORDS = ["", "a b", "$HOME", "%PATH%", "!X!", "a && b", "'\"`", "line\nbreak", "\N{GRINNING FACE}"]
ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"
ROOT = "/plug in/$HOME/${X}"
SPELLINGS = ["$ROOT", "${ROOT}", "${ROOT:-none}", "${NO_X:-default}", "$ROOT_SUFFIX", "$ROOT-child", "%ROOT%"]
EXPANDED = [ROOT, ROOT, ROOT, "default", "", f"{ROOT}-child", "%ROOT%"]
DENIED = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no")

CASES: Final[dict[str, Case]] = {
    "RX-01": case(loaded(), run("PreToolUse", gives=report())),
    "RX-02": case(
        written(
            project={"hooks": {"Stop": [{"command": "echo p"}]}},
            home={"hooks": {"Stop": [{"command": "echo g1"}, {"command": "echo g2"}]}},
        ),
        loaded(
            part(scope="project", event="Stop", command="echo p", source=f"PLACE/{PROJECT}"),
            part(scope="global", event="Stop", command="echo g1", source=f"PLACE/{HOME}"),
            part(scope="global", event="Stop", command="echo g2", source=f"PLACE/{HOME}"),
        ),
        run(
            "Stop",
            gives=of(
                outcome("pass", stdout="p\n", hook=part(scope="project")),
                outcome("pass", stdout="g1\n", hook=part(scope="global")),
                outcome("pass", stdout="g2\n", hook=part(scope="global")),
            ),
        ),
        step(native("same_hooks"), gives=[0, 1, 2]),
    ),
    "RX-03": case(
        written(
            project={
                "hooks": {
                    event: [{"command": "echo good"}, {"command": ""}, {"match": "x"}, {"command": 42}]
                    for event in ("Stop", "PreToolUse")
                }
            }
        ),
        step(native("load", places=PLACES), gives=[part(problem=ABSENT), *[part(problem=ANY)] * 3] * 2),
        run("Stop", gives=of(outcome("pass", stdout="good\n"), *[outcome("error", stderr=has("command"))] * 3)),
        run("PreToolUse", gives=of(outcome("pass", stdout="good\n"), outcome("block"), blocked=True)),
    ),
    "RX-04": case(
        written(project="{ not valid json"),
        loaded(part(event="*", scope="project", problem=has("settings.json:1: not JSON"))),
        run("PreToolUse", gives=of(outcome("block", stderr=has("settings.json:1")), blocked=True)),
        run("Stop", gives=report()),
    ),
    "RX-05": case(
        written(project={"hooks": {"Stop": [{"command": "true"}]}}),
        step(native("load", places={"homeDir": {"$place": "home"}}), gives=[]),
    ),
    "RX-06": case(
        written(project={"hooks": {"Stop": [{"command": "true"}]}}),
        loaded(part(source=f"PLACE/{PROJECT}")),
    ),
    "RX-07": case(*(passes("PreToolUse", match, "any_tool", fires=True) for match in (None, "", "*"))),
    "RX-08": case(
        passes("PreToolUse", "edit_file|write_file", "edit_file", fires=True),
        passes("PreToolUse", "edit_file|write_file", "write_file", fires=True),
        passes("PreToolUse", "edit_file|write_file", "read_file", fires=False),
        passes("PreToolUse", "file", "edit_file", fires=False),
    ),
    "RX-09": case(
        run(
            "PreToolUse", {"match": "[unclosed", "command": "true"}, {"match": "other", "command": "true"},
            gives=of(outcome("block", stderr=has("unclosed")), blocked=True),
        ),
        step(native("same_hooks"), gives=[0]),
        step(native("warnings"), gives=[has("unclosed")]),
    ),
    "RX-10": case(passes("UserPromptSubmit", "never", "hello", fires=True)),
    "RX-11": case(run("PreToolUse", {"command": "exit 0"}, gives=report("pass"))),
    "RX-12": case(run("PreToolUse", {"command": "exit 2"}, gives=report("block", blocked=True))),
    "RX-13": case(run("PostToolUse", {"command": "exit 2"}, gives=report("warn"))),
    "RX-14": case(
        run("PreToolUse", {"command": "exit 1"}, gives=of(outcome("warn", exitCode=1))),
        run("Stop", {"command": "exit 127"}, gives=of(outcome("warn", exitCode=127))),
    ),
    "RX-15": case(
        run("PreToolUse", SLOW, gives=report("block", blocked=True)),
        run("Stop", SLOW, gives=report("warn")),
    ),
    "RX-16": case(
        *(
            step_of
            for entry in (UNSTARTED, {"command": "exit 127"}, {"command": "kill -9 $$"})
            for step_of in (
                run("PreToolUse", entry, gives=report("block", blocked=True)),
                run("Stop", entry, gives=report("warn")),
            )
        )
    ),
    "RX-17": case(
        step(
            native(
                "runHooks",
                arguments=[
                    {
                        "hooks": [
                            {"event": "Stop", "command": "touch stop", **SCOPED},
                            {"event": "PreToolUse", "match": "write_file", "command": "touch write", **SCOPED},
                            {"event": "PreToolUse", "match": "edit_file", "command": "ls", **SCOPED},
                        ],
                        "payload": {"event": "PreToolUse", "cwd": APP, **EDIT},
                    }
                ],
            ),
            gives=of(outcome("pass", stdout="file\n")),
        ),
        step(native("same_hooks"), gives=[2]),
    ),
    "RX-18": case(
        run(
            "PreToolUse", {"command": "true"}, {"command": "echo denied >&2; exit 2"}, {"command": "touch third"},
            gives=report("pass", "block", blocked=True),
        ),
        run("Stop", {"command": "ls"}, gives=of(outcome("pass", stdout="file\n"))),
    ),
    "RX-19": case(run("PreToolUse", {"command": "exit 1"}, {"command": "exit 0"}, gives=report("warn", "pass"))),
    "RX-20": case(
        run("PreToolUse", {"command": "cat"}, gives=of(outcome("pass", stdout=has('"toolName":"edit_file"')))),
        run("PreToolUse", {"command": "cat"}, gives=of(outcome("pass", stdout=has('"toolArgs":{"path":"a.ts"}')))),
        run("PreToolUse", {"command": "cat"}, gives=of(outcome("pass", stdout=has('"cwd":"PLACE/app"')))),
        run("PreToolUse", {"command": "cat"}, gives=of(outcome("pass", stdout=has('{"event":"PreToolUse"')))),
        run("PreToolUse", {"command": "wc -l"}, gives=of(outcome("pass", stdout="1\n"))),
        run("PreToolUse", {"command": "tail -c 2"}, gives=of(outcome("pass", stdout="}\n"))),
    ),
    "RX-21": case(
        run(
            "PostToolUse", {"command": "pwd"}, {"command": "pwd", "cwd": {"$place": "home"}},
            gives=of(outcome("pass", stdout="PLACE/app\n"), outcome("pass", stdout="PLACE/home\n")),
        ),
        run("PreToolUse", {"command": "test ! -f file || exit 2"}, gives=report("block", blocked=True)),
    ),
    "RX-23": case(run("PreToolUse", {"command": "sleep 30", "timeout": 99}, gives=report("block", blocked=True))),
    "RX-24": case(line("global", "pass", "echo hi", "")),
    "RX-25": case(line("global", "warn", "echo hi", "careful")),
    "RX-26": case(line("global", "warn", LONG, "careful")),
    "RX-27": case(line("global", "warn", "echo hi", "careful", truncated=True)),
    "RX-28": case(
        run(
            "PostToolUse", {"command": "head -c 300000 /dev/zero | tr '\\0' x >&2; exit 2"},
            gives=of(outcome("warn", truncated=True)),
        ),
    ),
    "RX-29": case(
        run("PostToolUse", {"command": "echo careful >&2; exit 2"}, gives=of(outcome("warn", truncated=ABSENT)))
    ),
    "RX-30": case(step(native("runHooks", arguments=[{"payload": {"event": "Stop"}}]), gives=report())),
    "RX-31": case(
        run("Stop", {"command": "echo 1"}, {"command": "echo 2"}, gives=report("pass", "pass")),
        step(native("same_hooks"), gives=[0, 1]),
    ),
    "RX-32": case(
        run("PreToolUse", {"command": "exit 2"}, gives=report("block", blocked=True)),
        run("PreToolUse", {"command": "exit 0"}, gives=report("pass")),
        step(native("runHooks", arguments=[{"payload": {"event": "PreToolUse", **EDIT}}]), gives=report()),
    ),
    "RX-33": case(
        step({"do": "reopen", "cwd": None}),
        step(
            native("runHooks", arguments=[{"hooks": [{"event": "Stop", "command": "pwd", **SCOPED}], "payload": {"event": "Stop"}}]),
            gives=of(outcome("pass", stdout="HERE\n")),
        ),
    ),
    "RX-34": case(
        step(
            native("runHooks", arguments=[{"hooks": [{"event": "Stop", "command": "pwd", **SCOPED}], "payload": {"event": "Stop"}}]),
            gives=of(outcome("pass", stdout=has("/elsewhere\n"))),
        ),
    ),
    "RX-35": case(
        step(native("runHooks", arguments=[{"hooks": [{"event": "PreToolUse", "command": "touch ran; exit 1", **SCOPED}], "payload": {"event": "UserPromptSubmit", "cwd": APP, "prompt": "hello", "turn": 1}}]), gives=report(message="")),
        step(native("runHooks", arguments=[{"hooks": [{"event": "PreToolUse", "command": "touch ran; exit 1", **SCOPED}], "payload": {"event": "Stop", "cwd": APP, "lastAssistantText": "hi", "turn": 1}}]), gives=report(message="")),
        run("Stop", {"command": "ls"}, gives=of(outcome("pass", stdout="file\n"))),
    ),
    "RG-01": case(
        written(
            project={"hooks": {"Stop": [{"command": "echo p1"}, {"command": "echo p2"}]}},
            home={"hooks": {"Stop": [{"command": "echo g"}]}},
        ),
        loaded(part(command="echo p1"), part(command="echo p2"), part(command="echo g")),
        run("Stop", gives=report("pass", "pass", "pass")),
    ),
    "RG-02": case(
        *(
            step_of
            for data in ("eyJob29rcyI6IHsiU3RvcCI6IFt7ImNvbW1hbmQiOiAiZWNobyCyu9DQIn1dfX0=", "77u/eyJob29rcyI6IHsiU3RvcCI6IFt7ImNvbW1hbmQiOiAiZWNobyDkuI3ooYwifV19fQ==")
            for step_of in (
                written(project={"$buffer": data}),
                loaded(part(command="echo 不行", problem=ABSENT)),
                run("Stop", gives=of(outcome("pass", stdout="不行\n"))),
            )
        )
    ),
    "RG-03": case(
        written(project={"hooks": {"Stop": [{"command": "echo good"}]}}, home="{ not valid"),
        loaded(part(scope="project"), part(event="*", scope="global", problem=has("not JSON"))),
        run("PreToolUse", gives=report("block", blocked=True)),
        run("Stop", gives=of(outcome("pass", stdout="good\n"))),
    ),
    "RG-05": case(
        written(
            project={
                "hooks": {
                    "PostToolUse": [
                        {"matcher": "bash", "hooks": [{"type": "command", "command": "cat >&2; pwd >&2", "timeout": 2}]}
                    ],
                    "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "cat >&2; exit 2"}]}],
                }
            }
        ),
        loaded(part(event="PostToolUse", match="bash", timeout=2000), part(event="UserPromptSubmit")),
        run(
            "PostToolUse", toolName="bash", toolArgs={"command": "ls"}, toolResult="a.ts",
            gives=of(outcome("pass", stderr=has('"tool_response":"a.ts"'))),
        ),
        run("UserPromptSubmit", prompt="hello", turn=1, gives=of(outcome("block", stderr=has('"prompt":"hello"')), blocked=True)),
    ),
    "RG-06": case(
        files(app__tool={"$mode": ['#!/bin/sh\necho "$# arguments" >&2\nexit 2\n', 0o700]}),
        written(project={"hooks": {"PreToolUse": [{"command": "./tool", "args": []}]}}),
        step(native("load", places=PLACES)),
        run("PreToolUse", gives=of(outcome("block", stderr="0 arguments"), blocked=True)),
        written(project={"hooks": {"PreToolUse": [{"command": "[[ a == a ]] && echo yes >&2; exit 2", "shell": "bash"}]}}),
        step(native("load", places=PLACES)),
        run("PreToolUse", gives=of(outcome("block", stderr="yes"), blocked=True)),
    ),
    "RG-07": case(
        written(
            project={
                "hooks": {
                    "Stop": [
                        {"command": "printf '%s\\n' " + " ".join(f'"{word}"' for word in SPELLINGS), "env": {"ROOT": ROOT}},
                        {"command": "printf", "args": ["%s\\n", *SPELLINGS], "env": {"ROOT": ROOT}},
                    ]
                }
            }
        ),
        step(native("load", places=PLACES)),
        run(
            "Stop",
            gives=of(
                outcome("pass", stdout="".join(f"{word}\n" for word in EXPANDED)),
                outcome("pass", stdout="".join(f"{word}\n" for word in SPELLINGS)),
            ),
        ),
    ),
    "RG-09": case(
        loaded(), written(project={"hooks": {"Stop": [{"command": "true"}]}}), loaded(part(scope="project"))
    ),
    "RG-10": case(
        passes("PreToolUse", "file", "read_file", fires=False),
        passes("PreToolUse", ".*file", "read_file", fires=True),
        passes("PreToolUse", "bash", "bash", fires=True),
        passes("PermissionRequest", "file", "read_file", fires=False),
        passes("PermissionRequest", ".*file", "read_file", fires=True),
        passes("UserPromptSubmit", "x", "hi", fires=True),
        *(
            run(event, {"match": match, "command": "true"}, toolName="bash", toolArgs={}, gives=report("block", blocked=True))
            for event, match in (("PreToolUse", "["), ("PreToolUse", "a)|(b"), ("PermissionRequest", "["))
        ),
    ),
    "RG-11": case(
        written(project={"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}}),
        step(native("load", places=PLACES)),
        run("PreToolUse", toolName="Bash", toolArgs={}, gives=report("block", blocked=True)),
        run("PreToolUse", toolName="bash", toolArgs={}, gives=report()),
        run("PreToolUse", {"match": "bash", "command": "exit 2"}, toolName="Bash", toolArgs={}, gives=report()),
    ),
    "RG-12": case(
        *(
            step_of
            for given in INPUTS
            for step_of in seen(
                "PostToolUse", of(outcome("pass", stdout=has(f'"tool_input":{json.dumps(given, separators=(",", ":"))}'))),
                toolName="write_file", toolArgs=given,
            )
        )
    ),
    "RG-13": case(
        *seen("PostToolUse", of(outcome("pass", stdout=has('"tool_input":{"path":"a.ts"}'))), **EDIT),
    ),
    "RG-14": case(
        run("PreToolUse", {"command": "exit 0"}, gives=report("pass")),
        run("PreToolUse", {"command": "exit 2"}, gives=report("block", blocked=True)),
        run("PreToolUse", {"command": "exit 1"}, gives=report("warn")),
        run("PreToolUse", UNSTARTED, gives=report("block", blocked=True)),
        run("PostToolUse", {"command": "exit 2"}, gives=report("warn")),
        run("PostToolUse", SLOW, gives=report("warn")),
        run("PostToolUse", UNSTARTED, gives=report("warn")),
        run("PermissionRequest", {"command": "exit 2"}, gives=report("block", blocked=True)),
        run("PermissionRequest", SLOW, gives=report("block", blocked=True)),
        run("UserPromptSubmit", {"command": "exit 2"}, prompt="hi", gives=report("block", blocked=True)),
    ),
    "RG-15": case(
        *claude(DENIED, "PreToolUse"),
        run("PreToolUse", gives=of(outcome("block", stderr="no"), blocked=True)),
        *claude(specific("PreToolUse", permissionDecision="allow"), "PreToolUse"),
        run("PreToolUse", gives=report("pass")),
        *claude("plain text", "PreToolUse"),
        run("PreToolUse", gives=report("block", blocked=True)),
        *claude(specific("PermissionRequest", decision={"behavior": "deny", "message": "no"}), "PermissionRequest"),
        run("PermissionRequest", gives=of(outcome("block", stderr="no"), blocked=True)),
        *claude(json.dumps({"decision": "block", "reason": "no"}), "UserPromptSubmit"),
        run("UserPromptSubmit", prompt="hi", gives=of(outcome("block", stderr="no"), blocked=True)),
        *claude(json.dumps({"decision": "approve"}), "UserPromptSubmit"),
        run("UserPromptSubmit", prompt="hi", gives=report("pass")),
    ),
    "RG-16": case(
        *claude(specific("PermissionRequest", decision={"behavior": "allow"}), "PermissionRequest"),
        run("PermissionRequest", gives=report("pass")),
        *claude(specific("PermissionRequest", decision={"behavior": "deny", "message": "no"}), "PermissionRequest"),
        run("PermissionRequest", gives=report("block", blocked=True)),
        *claude(specific("PreToolUse", permissionDecision="allow"), "PreToolUse"),
        run("PreToolUse", gives=report("pass")),
    ),
    "RG-17": case(
        *claude(specific("SessionStart", additionalContext="use tabs"), "SessionStart"),
        run("SessionStart", gives=part(stdout="use tabs", decision="pass")),
        *claude("  use tabs  \n", "SessionStart"),
        run("SessionStart", gives=part(stdout="use tabs", decision="pass")),
        *claude(specific("Stop", additionalContext="use tabs"), "SessionStart"),
        run("SessionStart", gives=part(stdout="", decision="warn")),
        *claude('{"hookSpecificOutput": ', "SessionStart"),
        run("SessionStart", gives=part(stdout="", decision="warn")),
    ),
    "RG-18": case(
        run("PreToolUse", {"command": "exit 2"}, {"command": "touch second; exit 2"}, gives=report("block", blocked=True)),
        run("Stop", {"command": "ls"}, gives=of(outcome("pass", stdout="file\n"))),
    ),
    "RG-19": case(
        *claude(DENIED, "PreToolUse"),
        run("PreToolUse", gives=report("block", blocked=True)),
        run("PreToolUse", {"command": f"echo '{DENIED}'"}, gives=report("pass")),
    ),
    "RG-20": case(
        *claude(specific("PreToolUse", updatedInput={"path": "b.ts"}), "PreToolUse"),
        run("PreToolUse", gives=part(blocked=True, stderr=has("tool_input"))),
        *claude(specific("PreToolUse", permissionDecision="deny", updatedInput={"path": "b.ts"}), "PreToolUse"),
        run("PreToolUse", gives=report("block", blocked=True)),
        *claude("{}", "PreToolUse"),
        run("PreToolUse", gives=report("pass")),
    ),
    "RG-21": case(
        written(project={"hooks": {"PermissionRequest": [{"command": "exit 2", "payloadFormat": "claude"}]}}),
        step(native("load", places=PLACES)),
        run("PermissionRequest", gives=report("block", blocked=True)),
        *claude(specific("PermissionRequest", decision={"behavior": "allow"}), "PermissionRequest"),
        run("PermissionRequest", gives=report("pass")),
    ),
    "RG-22": case(
        *(
            step_of
            for key in ('"session_id":"s-9"', '"cwd":"PLACE/app"', '"tool_name":"edit_file"', '"error":"exit 1"', '"is_interrupt":false')
            for step_of in seen(
                "PostToolUseFailure", of(outcome("pass", stdout=has(key))), **EDIT, error="exit 1", isInterrupt=False, sessionId="s-9",
            )
        )
    ),
    "RG-23": case(
        written(project={"hooks": {"PreToolUse": [{"matcher": "write_file", "hooks": [{"type": "command", "command": "cat >&2; exit 2"}]}]}}),
        step(native("load", places=PLACES)),
        run(
            "PreToolUse", toolName="write_file", toolArgs={"path": "a.ts"},
            gives=of(outcome("block", stderr=has('"tool_input":{"path":"a.ts"}')), blocked=True),
        ),
    ),
    "RG-24": case(
        *(
            step_of
            for result in ("plain", '{"json": true}', {"stdout": "x"})
            for step_of in seen(
                "PostToolUse", of(outcome("pass", stdout=has(f'"tool_response":{json.dumps(result, separators=(",", ":"))}'))),
                **EDIT, toolResult=result,
            )
        )
    ),
    "RG-25": case(run("Stop", {"command": "sleep 30 & exit 0", "timeout": 5000}, gives=report("pass"))),
    "RG-26": case(
        run("PostToolUse", {"command": "printf hi"}, gives=of(outcome("pass", exitCode=0, stdout="hi"))),
        run("PostToolUse", {"command": "exit 2"}, gives=of(outcome("warn", exitCode=2))),
        run("PostToolUse", {"command": "cat"}, gives=of(outcome("pass", stdout=has("edit_file")))),
        run("PostToolUse", {"command": "sleep 5", "timeout": 100}, gives=report("warn")),
        run(
            "PostToolUse", {"command": "head -c 400000 /dev/zero | tr '\\0' x"},
            gives=of(outcome("pass", truncated=True)),
        ),
        run("PostToolUse", {"command": "head -c 60000 /dev/zero | tr '\\0' x"}, gives=of(outcome("pass", truncated=ABSENT))),
    ),
    "RG-27": case(
        written(project={"hooks": {"Stop": [{"command": sys.executable, "args": ["-c", ARGUMENTS, *WORDS]}]}}),
        step(native("load", places=PLACES)),
        run("Stop", gives=of(outcome("pass", stdout=json.dumps(WORDS) + "\n"))),
    ),
    "RG-28": case(
        run(
            "PreToolUse",
            {"command": """printf '%s|' 'a  b' "$WORD" "$(echo sub | tr a-z A-Z)" $( (exit 3); echo $? )""", "env": {"WORD": "env"}},
            gives=of(outcome("pass", stdout="a  b|env|SUB|3|")),
        ),
    ),
    "RG-29": case(
        run("PreToolUse", {"command": "dir", "payload": "xml"}, gives=of(outcome("block", stderr=has("payload is one of")), blocked=True)),
        written(project={"hooks": {"PreToolUse": [{"command": "dir", "shell": "cmd"}]}}),
        loaded(part(problem=has("it is for the shell 'cmd'"))),
        written(project={"hooks": {"PreToolUse": [{"command": "./no-such-program", "args": []}]}}),
        step(native("load", places=PLACES)),
        run("PreToolUse", gives=of(outcome("block", stderr=has("could not be started")), blocked=True)),
        run("PostToolUse", {"command": "echo why >&2; exit 7"}, gives=of(outcome("warn", exitCode=7, stderr="why\n"))),
        run("PreToolUse", {"command": "sleep 5", "timeout": 50}, gives=of(outcome("block", stderr=has("timed out")), blocked=True)),
    ),
    "RG-30": case(
        step(native("runHooks", arguments=[{"payload": {"event": "PreToolUse", **EDIT}}]), gives=report(message="")),
        run("PreToolUse", {"command": "exit 0"}, gives=report("pass", message="")),
        run("PreToolUse", {"command": "echo no >&2; exit 2"}, gives=report("block", blocked=True, stderr="no", message=has("no"))),
    ),
    "RG-31": case(
        run("PostToolUse", {"command": "echo tell >&2; exit 1"}, gives=report("warn", message=has("tell"), stdout="")),
        run("PermissionRequest", {"command": "exit 2"}, gives=report("block", blocked=True)),
    ),
    "RG-33": case(
        *(
            run(
                "PostLLMCall", {"command": f"""echo '{{"patch": {{"reasoning": "{text}"}}}}'; exit {code}""", "output": "json"},
                reasoning="because", turn=1, gives=part(stdout=gives),
            )
            for text, code, gives in (("text", 0, "text"), ("text", 1, ""))
        ),
        run("PostLLMCall", {"command": "echo text"}, reasoning="because", turn=1, gives=part(stdout="")),
        step(native("runHooks", arguments=[{"payload": {"event": "PostLLMCall", "reasoning": "because"}}]), gives=part(stdout="")),
    ),
}  # fmt: skip

WIRE: Final[dict[str, str]] = {
    "RX-22": "half a minute would have to pass; the daemon tells the budgets of its events",
    "RG-04": "a plugin is a package that the daemon has installed, and no list of the host",
    "RG-08": "where the daemon's own files are is the daemon's to say",
    "RG-32": "text for the model is in the decision, and Reasonix' report has no place for it",
}
