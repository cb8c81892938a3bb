"""A process as a worker is one (single-threaded, subreaper, own session), that runs shell hooks on request.

The tests' own process must not: it has other children, and only a worker may reap whatever it finds below it.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from hooklatch_worker.author import events, verdicts
from hooklatch_worker.author.call_context import CallContext, CapturedOutput
from hooklatch_worker.runtime import shell_command, shell_runner
from hooklatch_worker.systems import linux

PATH = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT = {"PATH": "/nowhere", "HOME": "/home/someone", "LC_ALL": "C.UTF-8", "SECRET": "s3cret", "LOGNAME": "x"}
ALLOWS = {
    "pre_tool_use": ["allow", "deny", "ask", "halt", "inject"],
    "permission_request": ["allow", "deny", "ask", "halt"],
    "user_prompt_submit": ["deny", "ask", "halt", "inject"],
    "config_change": ["deny", "ask"],
    "post_tool_use": ["halt", "inject", "append"],
    "session_start": ["halt", "inject"],
    "stop": ["halt", "resume"],
    "subagent_stop": ["halt", "inject", "resume"],
    "session_end": [],
}
TOOL = {"tool_name": "Bash", "tool_input": {"command": "ls"}}


class Reply(NamedTuple):
    """What came of one call, and what the worker was left with."""

    answer: dict[str, Any] | None
    cause: str
    message: str
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool
    seconds: float
    children: list[int]
    descriptors: int

    @property
    def word(self) -> str:
        """The verdict, the failure's cause, "warning" for an answer that only warns, or "pass"."""
        if self.cause:
            return self.cause
        answer = self.answer or {}
        return answer.get("verdict") or ("warning" if answer.get("warnings") else "pass")

    @property
    def text(self) -> str:
        answer = self.answer or {}
        return self.message or answer.get("reason") or "\n".join(answer.get("warnings", []))


class Driven:
    """A worker process under test."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=ENVIRONMENT
        )

    def run(
        self,
        command: str | list[str] | None = None,
        event: str = "pre_tool_use",
        fields: Mapping[str, Any] = TOOL,
        envelope: Mapping[str, Any] | None = None,
        remaining: float = 3600.0,
        **config: Any,
    ) -> Reply:
        """Run one hook on an event with these fields, in a call that has `remaining` seconds.

        `config` are further keys of its definition.
        """
        target = {} if command is None else {"argv": command} if isinstance(command, list) else {"command": command}
        allows = ALLOWS.get(event, [])
        standard = {"path": PATH, "hook_id": "h1", "allows": allows, "fails_closed": "deny" in allows}
        given = {"session_id": "s1", "cwd": self.folder, **(envelope or {})}
        return self.run_definition({**standard, **target, **config}, event, fields, given, remaining)

    def run_definition(
        self,
        definition: Mapping[str, Any],
        event: str = "pre_tool_use",
        fields: Mapping[str, Any] = TOOL,
        envelope: Mapping[str, Any] | None = None,
        remaining: float = 3600.0,
    ) -> Reply:
        """Run one hook with nothing in its definition but this."""
        reply = self._ask([event, fields, envelope or {"cwd": self.folder}, definition, remaining])
        reply["stdout"], reply["stderr"] = (base64.b64decode(reply[name]) for name in ("stdout", "stderr"))
        return Reply(**reply)

    def reap(self) -> list[int]:
        """Let it reap; give the children that are left."""
        return self._ask(None)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def _ask(self, request: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def ends(pid: int, within: float = 5.0) -> bool:
    """Wait for a process that need not be ours to end; a zombie has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        return bool(poll.poll(within * 1000))
    finally:
        os.close(pidfd)


def is_alive(pid: int) -> bool:
    return not ends(pid, within=0)


def serve() -> None:
    os.setsid()
    linux.become_subreaper()
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    for line in requests:
        request = json.loads(line)
        answers.write(json.dumps(call(*request) if request else left()).encode() + b"\n")
        answers.flush()
    linux.kill_children()


def left() -> list[int]:
    shell_command.reap_children()
    return linux.list_children()


def call(
    event: str, payload: dict[str, Any], envelope: dict[str, Any], config: dict[str, Any], remaining: float
) -> dict[str, Any]:
    context = CallContext(1, time.monotonic() + remaining)
    cause = message = ""
    answer = b""
    began = time.monotonic()
    try:
        answer = verdicts.encode_verdict(
            shell_runner.run(events.build_event(event, payload, envelope, config, None, False, context))
        )
    except shell_runner.CallFailed as error:
        cause, message = error.cause, error.message
    except verdicts.GarbageError as error:
        cause, message = "protocol", str(error)
    seconds = time.monotonic() - began
    printed = context.printed or CapturedOutput()
    return {
        "answer": json.loads(answer) if answer else None,
        "cause": cause,
        "message": message,
        "exit_code": printed.exit_code,
        "stdout": base64.b64encode(printed.stdout).decode(),
        "stderr": base64.b64encode(printed.stderr).decode(),
        "truncated": printed.truncated,
        "seconds": seconds,
        "children": linux.list_children(),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


if __name__ == "__main__":
    serve()
