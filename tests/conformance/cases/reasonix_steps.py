"""The steps by which Reasonix' rows are shown: settings files, runs of hooks, and what is reported of them."""

from __future__ import annotations

import json
import sys
from typing import Any

from conformance.driving import Case, Command, Step, part, step

__all__ = [
    "APP",
    "EDIT",
    "SCOPED",
    "PLACES",
    "PROJECT",
    "HOME",
    "native",
    "files",
    "written",
    "loaded",
    "run",
    "report",
    "outcome",
    "of",
    "case",
    "passes",
    "claude",
    "specific",
    "seen",
    "line",
    "SLOW",
    "UNSTARTED",
]

APP = {"$place": "app"}
EDIT = {"toolName": "edit_file", "toolArgs": {"path": "a.ts"}}
SCOPED = {"scope": "project", "source": "/srv/app/.reasonix/settings.json"}
PROJECT, HOME = "project/.reasonix/settings.json", "home/.reasonix/settings.json"
SLOW = {"command": "sleep 30", "timeout": 200}
UNSTARTED = {"command": "true", "cwd": "/nowhere"}
PLACES = {"projectRoot": {"$place": "project"}, "homeDir": {"$place": "home"}}


def native(call: str, **others: Any) -> Command:
    return {"do": "native", "call": call, **others}


def files(**texts: Any) -> Step:
    return step(
        native(
            "files",
            write={"app/file": "", "home/file": "", **{name.replace("__", "/"): text for name, text in texts.items()}},
        )
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
        "decision": decision, "exitCode": 0 if decision == "pass" else 2, "stdout": "", "stderr": detail,
        "durationMs": 1, **more,
    }  # fmt: skip
    return step({"do": "format", "outcome": shown}, gives=more_of(scope, decision, command, detail, more))


def more_of(scope: str, decision: str, command: str, detail: str, more: dict[str, Any]) -> str:
    if decision == "pass":
        return ""
    cut = " (output truncated at 256KB)" if more.get("truncated") else ""
    short = command if len(command) <= 60 else f"{command[:60]}…"
    return f"hook [{scope}/PostToolUse] {short} — {decision}{cut}: {detail}"
