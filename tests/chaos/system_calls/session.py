"""A short life of the real daemon, in which one system call fails, and what must hold in it.

The script: start, register, fire, reload, rotate, stop, and a second start without a fault.  Rules:

pass      a gate that a guard in force refuses never passes; a guard is in force once its change was acknowledged
end       a start, an answer and a stop have an end, and no process is left
green     a daemon that says that all is well decides by its guards, and has recorded what it answered
record    it is whole for `hooklatch log verify`, but for what the record tells itself
restart   what was acknowledged while all was well is there again after a start
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from chaos.recorded import read_records
from chaos.system_calls.places import SharedPage
from chaos.system_calls.tracer import Fault, SystemCall, trace
from hooklatch.record.verify import verify_record
from support.survivors import COOKIE, wait_until_gone

__all__ = ["PHASES", "Outcome", "live"]

PHASES = ("start", "register", "fire", "reload", "rotation", "stop")
PATIENCE = 40.0  # seconds for what takes a moment, and longer than each time-out of the daemon
FILES = {
    "hooks.toml": '[record]\nsegment_mib = 0.016\n[state]\nkept = true\n[[source]]\npath = "guards.py"\n',
    "session.py": 'from hooklatch import deny\n\n\ndef guard(event):\n    return deny("session") if "of-session" in str(event.tool_input) else None\n',
    "kept.py": 'from hooklatch import deny\n\n\ndef guard(event):\n    return deny("kept") if "of-global" in str(event.tool_input) else None\n',
}  # fmt: skip
GUARDS = """
from hooklatch import context, deny, hook

REFUSED = {refused!r}

@hook("pre_tool_use", id="guard")
def guard(event):
    said = context(count=event.state.increment("fires"))
    return said.deny("guard") if any(word in str(event.tool_input) for word in REFUSED) else said

@hook("post_tool_use", id="listener")
def listen(event):
    return context(heard=True)
"""
ROTATIONS = 40  # fires, whose entries fill more than one segment


class Outcome(msgspec.Struct):
    """What came of one life."""

    effects: list[str] = []
    violations: list[str] = []
    calls: list[SystemCall] = []
    is_reached: bool = False
    log: str = ""
    seconds: float = 0.0


class GoneError(Exception):
    """The daemon closed the connection, or does not listen."""


class Line:
    """A connection to the daemon; one request at a time."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE)
        self._buffer = b""
        self._count = 0
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise GoneError(str(error)) from None

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the whole answer; an empty one has neither a result nor an error."""
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            while True:
                while b"\n" not in self._buffer:
                    data = self._socket.recv(2**20)
                    if not data:
                        raise GoneError("the connection ended")
                    self._buffer += data
                line, _, self._buffer = self._buffer.partition(b"\n")
                answer: dict[str, Any] = json.loads(line)
                if answer.get("id") == self._count and "method" not in answer:
                    return answer
        except TimeoutError:
            raise
        except OSError as error:
            raise GoneError(str(error)) from None

    def close(self) -> None:
        self._socket.close()


class Life:
    """One run of the script."""

    def __init__(self, fault: Fault | None) -> None:
        self.outcome = Outcome()
        self._fault = fault
        self._folder = Path(tempfile.mkdtemp(prefix="hl-"))
        self._page = SharedPage()
        self._word = uuid.uuid4().hex
        self._in_force: set[str] = set()  # words that a guard refuses
        self._count = 0  # the last that shared state has said
        self._decisions: dict[str, str] = {}  # answered decisions by id
        self._agent: Line | None = None
        self._admin: Line | None = None
        self._tracer = 0
        self._output = self._report = -1
        (self._folder / "config").mkdir(mode=0o700)
        for name, text in FILES.items():
            (self._folder / "config" / name).write_text(text)
        self._write_guards("forbidden")

    # -- the script ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._in_force = {"forbidden"}
            if self._start():
                try:
                    self._play()
                except GoneError:
                    self._effect("the daemon ended")
                self._stop()
            self._start_again()
        except TimeoutError:
            self._break("end", f"no answer in {PATIENCE} s while in {PHASES[self._page.phase]}")
        finally:
            self._close()

    def _play(self) -> None:
        self._begin("register")
        self._agent = self._connect("agent")
        session = {"cwd": str(self._folder / "config"), "hooks": [self._hook("session")]}
        if self._is_said(self._agent.call("hello", protocol=1, session=session), "a session"):
            self._in_force.add("of-session")
        self._admin = self._connect("admin")
        self._is_said(self._admin.call("hello", protocol=1), "an administrator")
        if self._is_said(self._admin.call("register", hooks=[self._hook("kept")], scope="global"), "a registration"):
            self._in_force.add("of-global")
        self._begin("fire")
        self._judge_all()
        self._fire("post_tool_use", "harmless", tool_response="x")
        self._begin("reload")
        self._write_guards("forbidden", "of-reload")
        if self._is_said(self._ask_admin("reload"), "a reload"):
            self._in_force.add("of-reload")
        self._judge_all()
        self._begin("rotation")
        for _ in range(ROTATIONS):
            self._gate("harmless")
        self._judge_all()
        self._judge_status()

    def _judge_all(self) -> None:
        for word in ("harmless", "forbidden", "of-session", "of-global", "of-reload"):
            self._gate(word)

    def _judge_status(self) -> None:
        """Hold the daemon to what it says of itself."""
        status = self._ask_admin("status")
        said = status.get("result")
        if said is None:
            self._effect(f"status refused: {format_error(status)}")
            return
        red = sorted({finding["reason"] for finding in said["wrong"]})
        yellow = sorted({warning["reason"] for warning in said["warned"]})
        self._effect(*(f"red: {reason}" for reason in red), *(f"yellow: {reason}" for reason in yellow))
        if not red:
            if self._gate("harmless") not in ("pass", "unanswered"):
                self._break("green", "the daemon says that all is well, and refuses what no guard refuses")
            self._is_green = True

    # -- what the script asks --------------------------------------------------------------------------------------

    def _gate(self, word: str) -> str:
        return self._fire("pre_tool_use", word)

    def _fire(self, event: str, word: str, **payload: Any) -> str:
        is_gate = event == "pre_tool_use"
        payload = {"tool_name": "Bash", "tool_input": {"command": word}, **payload}
        try:
            if self._agent is None:
                self._agent = self._connect("agent")
                self._in_force.discard("of-session")  # another session
                self._agent.call("hello", protocol=1, session={})
            answer = self._agent.call("fire", event=event, payload=payload)
        except GoneError:
            self._agent = self._forget(self._agent)
            self._effect("unanswered")
            if not self._listens():
                raise
            return "unanswered"
        result = answer.get("result")
        if result is None:
            self._effect(f"an error to a fire: {format_error(answer)}")
            return "error"
        self._decisions[result["decision_id"]] = f"{event} {word}"
        self._count = max(self._count, (result.get("context") or {}).get("count", 0))
        verdict = result["verdict"]
        if verdict == "deny" and result["cause"] != "policy":
            self._effect(f"denied: {result['cause']}")
        if is_gate and verdict not in ("deny", "ask", "halt") and word in self._in_force:
            self._break("pass", f"{word!r} passed: {result}")
        return "pass" if verdict not in ("deny", "ask", "halt") else str(result["cause"])

    def _hook(self, name: str) -> dict[str, Any]:
        return {"id": name, "event": "pre_tool_use", "run": str(self._folder / "config" / f"{name}.py") + ":guard"}

    def _is_said(self, answer: dict[str, Any], what: str) -> bool:
        """Return whether the daemon says that it has done it, without a reservation."""
        result = answer.get("result")
        if result is None:
            self._effect(f"{what} refused: {format_error(answer)}")
        elif wrong := result.get("warnings") or result.get("diagnostics") or result.get("refused"):
            self._effect(f"{what} with a warning: {wrong}")
        else:
            return True
        return False

    def _ask_admin(self, method: str, **params: Any) -> dict[str, Any]:
        for _ in range(2):
            try:
                if self._admin is None:
                    self._admin = self._connect("admin")
                    self._admin.call("hello", protocol=1)
                return self._admin.call(method, **params)
            except GoneError:
                self._admin = self._forget(self._admin)
                self._effect("an administrator unanswered")
        raise GoneError

    def _connect(self, name: str) -> Line:
        return Line(self._folder / "run" / f"{name}.sock")

    def _listens(self) -> bool:
        try:
            self._connect("agent").close()
        except GoneError:
            return False
        return True

    def _forget(self, line: Line | None) -> None:
        if line is not None:
            line.close()

    # -- the process -----------------------------------------------------------------------------------------------

    def _begin(self, phase: str) -> None:
        self._page.phase = PHASES.index(phase)

    def _start(self) -> bool:
        """Start the daemon, and return whether it is ready."""
        self._page = SharedPage()
        self._page.phase = len(PHASES)  # it is not yet the daemon
        self._output, output = os.pipe()
        self._report, report = os.pipe()
        with (self._folder / "log").open("ab") as log:
            self._tracer = os.fork()
            if not self._tracer:
                self._run_tracer(output, report, log.fileno())
        os.close(output)
        os.close(report)
        ready = self._read(self._output, until=b"\n")
        if ready:
            return True
        code = self._wait()
        words = self._log().strip().splitlines()
        self._effect(f"start refused ({code}): {words[-1] if words else 'without a word'}")
        if code <= 0 or not words:
            self._break("end", f"the start failed with {code} and these words: {words[-1:]}")
        return False

    def _stop(self) -> None:
        self._begin("stop")
        self._agent, self._admin = self._forget(self._agent), self._forget(self._admin)
        pid = next(iter(linux_children(self._tracer)), None)
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
        code = self._wait()
        if code:
            self._effect(f"ended with {code}: {self._log().strip().splitlines()[-1:]}")
        self._judge_record()

    def _start_again(self) -> None:
        """Start once more without a fault: what was acknowledged while all was well is there."""
        self._fault, self._is_second = None, True
        in_force, count = self._in_force - {"of-session"}, self._count
        if not self._start():
            self._break("restart", "the second start was refused")
            return
        self._in_force = in_force if self._is_green else in_force - {"of-global"}
        try:
            self._judge_all()
            if self._is_green and self._count <= count:
                self._break("restart", f"shared state went from {count} to {self._count}")
            self._stop()
        except GoneError:
            self._break("restart", "the second daemon did not answer")

    def _judge_record(self) -> None:
        folder = self._folder / "home" / "hooklatch" / "record"
        try:
            found = verify_record(str(folder)).findings
            known = {record.decision_id for record in read_records(folder)}
        except (OSError, ValueError) as error:
            self._break("record", f"it cannot be read: {error}")
            return
        for finding in found:
            if finding.what != "fault":
                self._break("record", f"{finding.what}: {finding.text}")
        lost = [f"{id} {what}" for id, what in self._decisions.items() if id not in known]
        if lost and self._is_green:
            self._break("green", f"decisions that are not on record: {lost}")

    _is_green = False
    _is_second = False

    def _wait(self) -> int:
        """Wait for the end of the daemon, and return its exit code."""
        report = json.loads(self._read(self._report, until=None))
        os.waitpid(self._tracer, 0)
        os.close(self._report)
        os.close(self._output)
        self._output = self._report = -1
        if not self._is_second:
            self.outcome.is_reached = report["is_reached"]
            self.outcome.calls = [SystemCall(*call) for call in report["calls"]]
            self.outcome.log = self._log()
            if "Traceback" in self.outcome.log:
                self._effect("a traceback in the log")
        if left := wait_until_gone(self._word):
            self._break("end", f"{len(left)} processes are left")
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        return int(report["code"])

    def _read(self, fd: int, *, until: bytes | None) -> bytes:
        data = b""
        while until is None or until not in data:
            if not select.select([fd], [], [], PATIENCE)[0]:
                raise TimeoutError
            chunk = os.read(fd, 2**20)
            if not chunk:
                break
            data += chunk
        return data

    def _run_tracer(self, output: int, report: int, log: int) -> None:
        """In the tracer's process: trace the daemon, and say what came of it."""
        code, calls, reached = 255, dict[SystemCall, None](), False
        fault = self._fault

        def decide(call: SystemCall) -> int | None:
            nonlocal reached
            if call.phase >= len(PHASES):
                return None
            if fault is None:
                calls[call._replace(arguments=classify(call))] = None
            elif call.place == fault.place and call.number == fault.number and call.phase == fault.phase:
                reached = True
                return fault.error
            return None

        try:
            code = trace(lambda: self._serve(output, log), self._page, decide)
        finally:
            os.write(report, json.dumps({"code": code, "is_reached": reached, "calls": list(calls)}).encode())
            os._exit(0)

    def _serve(self, output: int, log: int) -> int:
        """In the daemon's process: be `hooklatch serve`."""
        from hooklatch.cli import main

        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(log, 2)
        os.closerange(3, 200)
        # The streams of this process know what they were opened for.
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        os.chdir(self._folder)
        os.environ.clear()
        os.environ.update({
            "PATH": os.defpath, "HOME": str(self._folder), "XDG_STATE_HOME": str(self._folder / "home"),
            "HOOKLATCH_CONFIG": str(self._folder / "config" / "hooks.toml"),
            "HOOKLATCH_RUNTIME_DIR": str(self._folder / "run"), COOKIE: self._word,
        })  # fmt: skip
        sys.argv[:] = ["hooklatch", "serve", "--json"]
        if not self._is_second:
            self._page.phase = PHASES.index("start")
            self._page.note_places()
        code = main()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return code

    # -- what is noted ---------------------------------------------------------------------------------------------

    def _effect(self, *texts: str) -> None:
        if self._is_second:
            return
        for text in texts:
            plain = re.sub(r"\d{6,}", "N", text.replace(str(self._folder), "…"))
            if plain not in self.outcome.effects:
                self.outcome.effects.append(plain)

    def _break(self, rule: str, text: str) -> None:
        again = " (after the second start)" if self._is_second else ""
        self.outcome.violations.append(f"{rule}: {text}{again}")

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def _write_guards(self, *refused: str) -> None:
        path = self._folder / "config" / "guards.py"
        path.with_suffix(".new").write_text(GUARDS.format(refused=refused))
        path.with_suffix(".new").replace(path)

    def _close(self) -> None:
        self._forget(self._agent)
        self._forget(self._admin)
        if self._report >= 0:
            self.outcome.log = self._log()
            os.kill(self._tracer, signal.SIGKILL)
            os.waitpid(self._tracer, 0)
            os.close(self._report)
            os.close(self._output)
        for pid in wait_until_gone(self._word):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._folder)


def linux_children(pid: int) -> list[int]:
    from hooklatch_worker.sandbox import linux

    return linux.list_children(pid)


def classify(call: SystemCall) -> tuple[int, ...]:
    """Return the arguments that decide which errors a call can give."""
    from chaos.system_calls.errors import errors_of

    return errors_of(call)


def format_error(answer: dict[str, Any]) -> str:
    error = answer.get("error", {})
    return f"{error.get('data', {}).get('name')}: {error.get('message')}"


def live(fault: Fault | None, clock: Callable[[], float]) -> Outcome:
    """Play the script, with this fault or, to list the places, with none."""
    began = clock()
    life = Life(fault)
    life.run()
    life.outcome.seconds = round(clock() - began, 2)
    return life.outcome
