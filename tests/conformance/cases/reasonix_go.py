"""The rows of Reasonix' present line, in Go (RG).  Plain data, beside those of the line in TypeScript."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from conformance.cases.reasonix_steps import (
    EDIT,
    PLACES,
    SLOW,
    UNSTARTED,
    case,
    claude,
    files,
    loaded,
    native,
    of,
    outcome,
    passes,
    report,
    run,
    seen,
    specific,
    written,
)
from conformance.driving import ABSENT, Case, has, part, step

__all__ = ["CASES"]

INPUTS: list[Any] = [{"path": "a.ts", "content": "x"}, {"path": "/abs/a.ts"}, {"ids": ["1"], "timeout": 3}, {}, "text"]
WORDS = ["", "a b", "$HOME", "%PATH%", "!X!", "a && b", "'\"`", "line\nbreak", "\N{GRINNING FACE}"]
ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"
ROOT = "/plug in/$HOME/${X}"
SPELLINGS = ["$ROOT", "${ROOT}", "${ROOT:-none}", "${NO_X:-default}", "$ROOT_SUFFIX", "$ROOT-child", "%ROOT%"]
EXPANDED = [ROOT, ROOT, ROOT, "default", "", f"{ROOT}-child", "%ROOT%"]
DENIED = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no")

CASES: Final[dict[str, Case]] = {
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
            for data in (
                "eyJob29rcyI6IHsiU3RvcCI6IFt7ImNvbW1hbmQiOiAiZWNobyCyu9DQIn1dfX0=",
                "77u/eyJob29rcyI6IHsiU3RvcCI6IFt7ImNvbW1hbmQiOiAiZWNobyDkuI3ooYwifV19fQ==",
            )
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
            "PostToolUse",
            toolName="bash",
            toolArgs={"command": "ls"},
            toolResult="a.ts",
            gives=of(outcome("pass", stderr=has('"tool_response":"a.ts"'))),
        ),
        run(
            "UserPromptSubmit",
            prompt="hello",
            turn=1,
            gives=of(outcome("block", stderr=has('"prompt":"hello"')), blocked=True),
        ),
    ),
    "RG-06": case(
        files(app__tool={"$mode": ['#!/bin/sh\necho "$# arguments" >&2\nexit 2\n', 0o700]}),
        written(project={"hooks": {"PreToolUse": [{"command": "./tool", "args": []}]}}),
        step(native("load", places=PLACES)),
        run("PreToolUse", gives=of(outcome("block", stderr="0 arguments"), blocked=True)),
        written(
            project={"hooks": {"PreToolUse": [{"command": "[[ a == a ]] && echo yes >&2; exit 2", "shell": "bash"}]}}
        ),
        step(native("load", places=PLACES)),
        run("PreToolUse", gives=of(outcome("block", stderr="yes"), blocked=True)),
    ),
    "RG-07": case(
        written(
            project={
                "hooks": {
                    "Stop": [
                        {
                            "command": "printf '%s\\n' " + " ".join(f'"{word}"' for word in SPELLINGS),
                            "env": {"ROOT": ROOT},
                        },
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
    "RG-09": case(loaded(), written(project={"hooks": {"Stop": [{"command": "true"}]}}), loaded(part(scope="project"))),
    "RG-10": case(
        passes("PreToolUse", "file", "read_file", fires=False),
        passes("PreToolUse", ".*file", "read_file", fires=True),
        passes("PreToolUse", "bash", "bash", fires=True),
        passes("PermissionRequest", "file", "read_file", fires=False),
        passes("PermissionRequest", ".*file", "read_file", fires=True),
        passes("UserPromptSubmit", "x", "hi", fires=True),
        *(
            run(
                event,
                {"match": match, "command": "true"},
                toolName="bash",
                toolArgs={},
                gives=report("block", blocked=True),
            )
            for event, match in (("PreToolUse", "["), ("PreToolUse", "a)|(b"), ("PermissionRequest", "["))
        ),
    ),
    "RG-11": case(
        written(
            project={
                "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}
            }
        ),
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
                "PostToolUse",
                of(outcome("pass", stdout=has(f'"tool_input":{json.dumps(given, separators=(",", ":"))}'))),
                toolName="write_file",
                toolArgs=given,
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
        run(
            "PreToolUse",
            {"command": "exit 2"},
            {"command": "touch second; exit 2"},
            gives=report("block", blocked=True),
        ),
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
            for key in (
                '"session_id":"s-9"',
                '"cwd":"PLACE/app"',
                '"tool_name":"edit_file"',
                '"error":"exit 1"',
                '"is_interrupt":false',
            )
            for step_of in seen(
                "PostToolUseFailure",
                of(outcome("pass", stdout=has(key))),
                **EDIT,
                error="exit 1",
                isInterrupt=False,
                sessionId="s-9",
            )
        )
    ),
    "RG-23": case(
        written(
            project={
                "hooks": {
                    "PreToolUse": [
                        {"matcher": "write_file", "hooks": [{"type": "command", "command": "cat >&2; exit 2"}]}
                    ]
                }
            }
        ),
        step(native("load", places=PLACES)),
        run(
            "PreToolUse",
            toolName="write_file",
            toolArgs={"path": "a.ts"},
            gives=of(outcome("block", stderr=has('"tool_input":{"path":"a.ts"}')), blocked=True),
        ),
    ),
    "RG-24": case(
        *(
            step_of
            for result in ("plain", '{"json": true}', {"stdout": "x"})
            for step_of in seen(
                "PostToolUse",
                of(outcome("pass", stdout=has(f'"tool_response":{json.dumps(result, separators=(",", ":"))}'))),
                **EDIT,
                toolResult=result,
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
            "PostToolUse",
            {"command": "head -c 400000 /dev/zero | tr '\\0' x"},
            gives=of(outcome("pass", truncated=True)),
        ),
        run(
            "PostToolUse",
            {"command": "head -c 60000 /dev/zero | tr '\\0' x"},
            gives=of(outcome("pass", truncated=ABSENT)),
        ),
    ),
    "RG-27": case(
        written(project={"hooks": {"Stop": [{"command": sys.executable, "args": ["-c", ARGUMENTS, *WORDS]}]}}),
        step(native("load", places=PLACES)),
        run("Stop", gives=of(outcome("pass", stdout=json.dumps(WORDS) + "\n"))),
    ),
    "RG-28": case(
        run(
            "PreToolUse",
            {
                "command": """printf '%s|' 'a  b' "$WORD" "$(echo sub | tr a-z A-Z)" $( (exit 3); echo $? )""",
                "env": {"WORD": "env"},
            },
            gives=of(outcome("pass", stdout="a  b|env|SUB|3|")),
        ),
    ),
    "RG-29": case(
        run(
            "PreToolUse",
            {"command": "dir", "payload": "xml"},
            gives=of(outcome("block", stderr=has("payload is one of")), blocked=True),
        ),
        written(project={"hooks": {"PreToolUse": [{"command": "dir", "shell": "cmd"}]}}),
        loaded(part(problem=has("it is for the shell 'cmd'"))),
        written(project={"hooks": {"PreToolUse": [{"command": "./no-such-program", "args": []}]}}),
        step(native("load", places=PLACES)),
        run("PreToolUse", gives=of(outcome("block", stderr=has("could not be started")), blocked=True)),
        run("PostToolUse", {"command": "echo why >&2; exit 7"}, gives=of(outcome("warn", exitCode=7, stderr="why\n"))),
        run(
            "PreToolUse",
            {"command": "sleep 5", "timeout": 50},
            gives=of(outcome("block", stderr=has("timed out")), blocked=True),
        ),
    ),
    "RG-30": case(
        step(native("runHooks", arguments=[{"payload": {"event": "PreToolUse", **EDIT}}]), gives=report(message="")),
        run("PreToolUse", {"command": "exit 0"}, gives=report("pass", message="")),
        run(
            "PreToolUse",
            {"command": "echo no >&2; exit 2"},
            gives=report("block", blocked=True, stderr="no", message=has("no")),
        ),
    ),
    "RG-31": case(
        run("PostToolUse", {"command": "echo tell >&2; exit 1"}, gives=report("warn", message=has("tell"), stdout="")),
        run("PermissionRequest", {"command": "exit 2"}, gives=report("block", blocked=True)),
    ),
    "RG-33": case(
        *(
            run(
                "PostLLMCall",
                {"command": f"""echo '{{"patch": {{"reasoning": "{text}"}}}}'; exit {code}""", "output": "json"},
                reasoning="because",
                turn=1,
                gives=part(stdout=gives),
            )
            for text, code, gives in (("text", 0, "text"), ("text", 1, ""))
        ),
        run("PostLLMCall", {"command": "echo text"}, reasoning="because", turn=1, gives=part(stdout="")),
        step(
            native("runHooks", arguments=[{"payload": {"event": "PostLLMCall", "reasoning": "because"}}]),
            gives=part(stdout=""),
        ),
    ),
}
