"""The rows of Reasonix that its own `loadHooks` and `runHooks` show, through the TypeScript client.  Plain data.

Payloads name a folder that is not the session's.  Files are the driver's own, below PLACE.
"""

from __future__ import annotations

from typing import Final

from conformance.cases import reasonix_go
from conformance.cases.reasonix_steps import (
    APP,
    EDIT,
    HOME,
    PLACES,
    PROJECT,
    SCOPED,
    SLOW,
    UNSTARTED,
    case,
    line,
    loaded,
    native,
    of,
    outcome,
    passes,
    report,
    run,
    written,
)
from conformance.driving import ABSENT, ANY, Case, Command, has, part, step

__all__ = ["CASES", "FILES", "LANGUAGE", "WIRE", "opening"]

LANGUAGE: Final = "typescript"
FILES: Final[dict[str, str]] = {}

LONG = "exit 2 # " + "x" * 200


def opening(path: str, folder: str) -> list[Command]:
    """Return the commands that open a session at a socket, in a folder unlike those that the rows name."""
    return [{"do": "open", "path": path, "dialect": "reasonix", "cwd": folder, "session_id": None}]


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
            "PreToolUse",
            {"match": "[unclosed", "command": "true"},
            {"match": "other", "command": "true"},
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
            "PreToolUse",
            {"command": "true"},
            {"command": "echo denied >&2; exit 2"},
            {"command": "touch third"},
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
            "PostToolUse",
            {"command": "pwd"},
            {"command": "pwd", "cwd": {"$place": "home"}},
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
            "PostToolUse",
            {"command": "head -c 300000 /dev/zero | tr '\\0' x >&2; exit 2"},
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
            native(
                "runHooks",
                arguments=[{"hooks": [{"event": "Stop", "command": "pwd", **SCOPED}], "payload": {"event": "Stop"}}],
            ),
            gives=of(outcome("pass", stdout="HERE\n")),
        ),
    ),
    "RX-34": case(
        step(
            native(
                "runHooks",
                arguments=[{"hooks": [{"event": "Stop", "command": "pwd", **SCOPED}], "payload": {"event": "Stop"}}],
            ),
            gives=of(outcome("pass", stdout=has("/elsewhere\n"))),
        ),
    ),
    "RX-35": case(
        step(
            native(
                "runHooks",
                arguments=[
                    {
                        "hooks": [{"event": "PreToolUse", "command": "touch ran; exit 1", **SCOPED}],
                        "payload": {"event": "UserPromptSubmit", "cwd": APP, "prompt": "hello", "turn": 1},
                    }
                ],
            ),
            gives=report(message=""),
        ),
        step(
            native(
                "runHooks",
                arguments=[
                    {
                        "hooks": [{"event": "PreToolUse", "command": "touch ran; exit 1", **SCOPED}],
                        "payload": {"event": "Stop", "cwd": APP, "lastAssistantText": "hi", "turn": 1},
                    }
                ],
            ),
            gives=report(message=""),
        ),
        run("Stop", {"command": "ls"}, gives=of(outcome("pass", stdout="file\n"))),
    ),
    **reasonix_go.CASES,
}

WIRE: Final[dict[str, str]] = {
    "RX-22": "half a minute would have to pass; the daemon tells the budgets of its events",
    "RG-04": "a plugin is a package that the daemon has installed, and no list of the host",
    "RG-08": "where the daemon's own files are is the daemon's to say",
    "RG-32": "text for the model is in the decision, and Reasonix' report has no place for it",
}
