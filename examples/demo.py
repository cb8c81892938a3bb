"""A live demo: a daemon, a recorded session of Claude Code played through it, and several failures on the way.

Each event is sent as Claude Code does: one process of the entry that is installed for it.  The session was recorded
from Claude Code 2.1.330 (examples/recorded-session.jsonl).  Nothing outside a temporary directory is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hooklatch.entry.commands import make_entry_command
from hooklatch.hosts.find import find_host

HERE = Path(__file__).resolve().parent
PATIENCE = 30.0  # seconds to wait for something that should be there at once


class Demo:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config"
        shutil.copytree(HERE / "hooks", self.config)
        for path in (folder, self.config, *self.config.iterdir()):
            path.chmod(0o700 if path.is_dir() else 0o600)
        self.environment = {
            **os.environ,
            "HOOKLATCH_CONFIG": str(self.config / "hooks.toml"),
            "HOOKLATCH_RUNTIME_DIR": str(folder / "run"),
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(folder),
        }
        self.marker = folder / "hooklatch-review.pid"

    def hooklatch(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "hooklatch", *arguments]

    def start(self) -> subprocess.Popen[str]:
        say("starting a daemon in a temporary folder ...")
        daemon = subprocess.Popen(
            self.hooklatch("serve", "--json", "--log-level", "error"),
            env=self.environment, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert daemon.stdout is not None
        line = daemon.stdout.readline()
        if not line:
            raise SystemExit("the daemon did not start")
        say(f"daemon {json.loads(line)['pid']} is ready on {json.loads(line)['agent']}")
        return daemon

    def send(self, event: dict[str, Any]) -> subprocess.Popen[str]:
        name = event["hook_event_name"]
        spec = find_host("claude-code").events[name]
        process = subprocess.Popen(
            make_entry_command("claude-code", name, spec.kind, spec.wait), env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(event))
        process.stdin.close()
        process.stdin = None
        return process

    def show(self, event: dict[str, Any], process: subprocess.Popen[str]) -> str:
        stdout, stderr = process.communicate()
        answer = told(stdout, stderr, process.returncode)
        say(f"  {title(event):38} {answer}")
        return answer

    def status(self) -> dict[str, Any]:
        done = subprocess.run(
            self.hooklatch("status", "--json"), env=self.environment, capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout)


def say(text: str = "") -> None:
    print(text, flush=True)


def title(event: dict[str, Any]) -> str:
    tool_input = event.get("tool_input", {})
    detail = tool_input.get("command") or Path(tool_input.get("file_path", "")).name or event.get("prompt") or ""
    return f"{event['hook_event_name']} {event.get('tool_name', '')} {detail}"[:38]


def told(stdout: str, stderr: str, code: int) -> str:
    """Put in one line what Claude Code is told."""
    if code == 2:
        return f"BLOCK  {stderr.strip()}"
    if not stdout.strip():
        return "pass"
    answer = json.loads(stdout)
    specific = answer.get("hookSpecificOutput", {})
    verdict = (
        specific.get("permissionDecision") or specific.get("decision", {}).get("behavior") or answer.get("decision")
    )
    reason = specific.get("permissionDecisionReason") or answer.get("reason")
    if "updatedToolOutput" in specific:
        return f"HELD   the model reads: {specific['updatedToolOutput']}"
    context = specific.get("additionalContext") or answer.get("systemMessage")
    return f"{str(verdict).upper():5}  {reason}" if verdict else f"pass   + {context}"


def wait_for(condition: Callable[[], object], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise SystemExit(f"waited {PATIENCE:.0f} s in vain for {what}")


def play(demo: Demo) -> None:
    events = [json.loads(line) for line in (HERE / "recorded-session.jsonl").read_text().splitlines()]
    edit = next(event for event in events if event.get("tool_name") == "Edit")
    written = next(event for event in events if event.get("tool_name") == "Write")

    say("\n1. The recorded session, event by event, and what Claude Code is told:")
    answers: dict[str, str] = {}
    for event in events:
        if event in (edit, written):
            continue
        name, call = event["hook_event_name"], event.get("tool_use_id", "")
        if name.startswith("PostToolUse") and call not in answers:  # the recording lacks that it was asked
            asked = {key: value for key, value in event.items() if key != "tool_response"}
            asked["hook_event_name"] = "PreToolUse"
            answers[call] = demo.show(asked, demo.send(asked))
        was_refused = name.startswith("PostToolUse") and answers[call].startswith(("DENY", "BLOCK"))
        if not was_refused:  # an agent reports no call as run that was refused
            answers[call] = demo.show(event, demo.send(event))

    say("\n2. A dangerous command that the session did not hold:")
    removal = {**events[4], "tool_input": {"command": "rm -rf /home/dev/proj"}}
    if "DENY" not in demo.show(removal, demo.send(removal)):
        raise SystemExit("the guard let it through")

    say("\n3. A worker is killed in the middle of a gate:")
    process = demo.send(edit)
    worker = int(wait_for(lambda: demo.marker.exists() and demo.marker.read_text(), "the slow review to begin"))
    say(f"  the review of {title(edit)} runs in worker {worker}; SIGKILL")
    os.kill(worker, signal.SIGKILL)
    if "DENY" not in demo.show(edit, process):
        raise SystemExit("a crash let the edit through")

    say("\n4. The hook is edited while the daemon runs, and the next call uses it:")
    before = demo.status()["revision"]
    review = demo.config / "review.py"
    review.write_text(review.read_text().replace("SECONDS = 20", "SECONDS = 0"))
    after = wait_for(lambda: (now := demo.status()["revision"]) > before and now, "the reload")
    say(f"  review.py changed: revision {before} -> {after}")
    if demo.show(edit, demo.send(edit)) != "pass":
        raise SystemExit("the mended hook did not pass")
    done = {**written, **{key: edit[key] for key in ("tool_name", "tool_input", "tool_use_id")}}
    demo.show(done, demo.send(done))

    say("\n5. The daemon is gone: gates stay closed, and no result is shown that no guard saw:")


def show_record(demo: Demo) -> None:
    for words in (("log", "--cause", "crash"), ("log", "verify")):
        done = subprocess.run(
            demo.hooklatch(*words), env=demo.environment, capture_output=True, text=True, check=True
        )  # fmt: skip
        say(f"  $ hooklatch {' '.join(words)}")
        for line in done.stdout.splitlines():
            say(f"    {line}")
        if not done.stdout:
            raise SystemExit("the killed worker's decision is not on record")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hl-") as name:
        demo = Demo(Path(name))
        daemon = demo.start()
        try:
            play(demo)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(PATIENCE)
        events = [json.loads(line) for line in (HERE / "recorded-session.jsonl").read_text().splitlines()]
        for event in (events[2], events[3]):
            demo.show(event, demo.send(event))
        say("\n6. What was decided is on record, in a chain that shows what is changed later:")
        show_record(demo)
        say("\ndone: nothing is left running, and nothing outside the temporary folder was written")


if __name__ == "__main__":
    main()
