"""A short life of the real daemon, in which one system call fails, and what must hold in it.

The script: start, register, fire, reload, rotate, stop, and a second start without a fault.  The rules:

pass      a gate that a guard in force refuses never passes; a guard is in force once its change was acknowledged
end       a start, an answer and a stop have an end, a start that fails says why, and no process is left
green     a daemon that says that all is well decides by its guards, and has recorded what it answered
record    it is whole for `hooklatch log verify`, but for what the record tells itself
restart   what was acknowledged while all was well is there again after a start
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from chaos.arena import Admin, AdminRefusedError, DaemonGoneError
from chaos.recorded import read_records
from chaos.system_calls.process import PATIENCE, PHASES, TracedDaemon, TraceReport
from chaos.system_calls.tracer import Fault, SystemCall
from hooklatch.record.verify import verify_record

__all__ = ["LifeReport", "live"]

CONFIG = '[record]\nsegment_mib = 0.016\n[state]\nkept = true\n[[source]]\npath = "guards.py"\n'
GUARD = """from hooklatch import deny

def guard(event):
    return deny({word!r}) if {word!r} in str(event.tool_input) else None
"""
GUARDS = """from hooklatch import context, deny, hook

@hook("pre_tool_use", id="guard")
def guard(event):
    said = context(count=event.state.increment("fires"))
    return said.deny("guard") if any(word in str(event.tool_input) for word in {words!r}) else said

@hook("post_tool_use", id="listener")
def listen(event):
    return context(heard=True)
"""
ROTATIONS = 40  # fires, whose entries fill more than one segment
REFUSALS = ("deny", "ask", "halt")


class LifeReport(msgspec.Struct):
    """What came of one life."""

    effects: list[str] = []
    violations: list[str] = []
    calls: list[tuple[SystemCall, tuple[int, ...]]] = []
    is_reached: bool = False
    log: str = ""
    seconds: float = 0.0


class Life:
    """One run of the script.  `guards` are the words that the file's guard refuses at first."""

    def __init__(self, folder: Path, fault: Fault | None, guards: tuple[str, ...]) -> None:
        self.report = LifeReport()
        self._folder = folder
        self._in_force = {"forbidden"}  # words that a guard refuses
        self._is_green = self._keeps_state = self._is_second = False
        self._count = 0  # the last that shared state has said
        self._decisions: dict[str, str] = {}  # what was answered, by id
        self._lines: dict[str, Admin] = {}
        (folder / "config").mkdir(mode=0o700)
        self._write("hooks.toml", CONFIG)
        self._write("guards.py", GUARDS.format(words=guards))
        for word in ("session", "global"):
            self._write(f"{word}.py", GUARD.format(word=f"of-{word}"))
        self._daemon = TracedDaemon(folder, fault, has_places=True)

    def run(self) -> None:
        try:
            self._run_once(self._play)
            self._is_second = True
            self._daemon = TracedDaemon(self._folder, None, has_places=False)
            self._in_force -= {"of-session"} if self._is_green else {"of-session", "of-global"}
            self._run_once(self._play_again)
        except TimeoutError:
            self._break("end", f"no answer in {PATIENCE:.0f} s in the phase {PHASES[self._daemon.page.phase]!r}")
        finally:
            self._hang_up()
            self._daemon.close()
            self.report.log = self._log()

    # -- the script ------------------------------------------------------------------------------------------------

    def _play(self) -> None:
        self._begin("register")
        for place, word, scope in (("agent", "session", "session"), ("admin", "global", "global")):
            run = f"{self._folder / 'config' / word}.py:guard"
            hook = {"id": word, "event": "pre_tool_use", "run": run}
            if self._is_done("a registration", place, "register", hooks=[hook], scope=scope):
                self._in_force.add(f"of-{word}")
        self._begin("fire")
        self._fire_all()
        self._fire("harmless", event="post_tool_use", tool_response="x")
        self._begin("reload")
        self._write("guards.py", GUARDS.format(words=("forbidden", "of-reload")))
        if self._is_done("a reload", "admin", "reload"):
            self._in_force.add("of-reload")
        self._fire_all()
        self._begin("rotation")
        for _ in range(ROTATIONS):
            self._fire("harmless")
        self._fire_all()
        self._judge_status()

    def _play_again(self) -> None:
        count = self._count
        self._fire_all()
        if self._is_green and self._keeps_state and self._count <= count:
            self._break("restart", f"shared state went from {count} to {self._count}")

    def _run_once(self, play: Any) -> None:
        ready = self._daemon.wait_ready()
        if ready:
            if ready == "lost":
                self._effect("it works, and its line that it is ready is lost")
            try:
                play()
            except DaemonGoneError:
                self._effect("the daemon ended")
            self._begin("stop")
            self._hang_up()
            self._daemon.terminate()
        report = self._daemon.wait()
        self._judge_end(report, was_ready=bool(ready))
        if ready:
            self._judge_record()

    def _fire_all(self) -> None:
        for word in ("harmless", "forbidden", "of-session", "of-global", "of-reload"):
            self._fire(word)

    # -- the rules -------------------------------------------------------------------------------------------------

    def _fire(self, word: str, *, event: str = "pre_tool_use", **payload: Any) -> bool:
        """Fire, and return whether it was let through."""
        payload = {"tool_name": "Bash", "tool_input": {"command": word}, **payload}
        result = self._ask("a fire", "agent", "fire", event=event, payload=payload)
        if result is None:
            return False
        self._decisions[result["decision_id"]] = f"{event} {word}"
        self._count = max(self._count, (result.get("context") or {}).get("count", 0))
        if result["verdict"] in REFUSALS:
            if result["cause"] != "policy":
                self._effect(f"denied: {result['cause']}")
            return False
        if word in self._in_force and event == "pre_tool_use":
            self._break("pass", f"{word!r} passed: {result}")
        return True

    def _judge_status(self) -> None:
        """Hold the daemon to what it says of itself."""
        status = self._ask("status", "admin", "status")
        if status is None:
            return
        red, yellow = ({finding["reason"] for finding in status[name]} for name in ("wrong", "warned"))
        self._effect(*(f"red: {reason}" for reason in sorted(red)), *(f"yellow: {reason}" for reason in sorted(yellow)))
        self._is_green, self._keeps_state = not red, "state" not in yellow
        if self._is_green and not self._fire("harmless"):
            self._break("green", "the daemon says that all is well, and lets nothing pass")

    def _judge_end(self, report: TraceReport, *, was_ready: bool) -> None:
        if not self._is_second:
            self.report.is_reached, self.report.calls = report.is_reached, report.calls
        log = self._log().strip().splitlines()
        said = [line for line in log if line.startswith("hooklatch: ")]
        last = (said or log or [""])[-1]
        if "Traceback" in self._log():
            self._effect("a traceback in the log")
        if report.code and was_ready:
            self._effect(f"it ended with {report.code}: {last}")
        elif not was_ready:
            self._effect(f"start refused ({report.code}): {last}")
        if not was_ready and (report.code <= 0 or not said):
            self._break("end", f"the start failed with {report.code} and said {last!r}")
        if not was_ready and self._is_second:
            self._break("restart", f"the second start was refused: {last}")
        if report.survivors:
            self._break("end", f"{report.survivors} processes are left")

    def _judge_record(self) -> None:
        folder = self._folder / "home" / "hooklatch" / "record"
        for finding in verify_record(str(folder)).findings:
            if finding.what != "fault":
                self._break("record", f"{finding.what}: {finding.text}")
        known = {record.decision_id for record in read_records(folder)}
        lost = [f"{number} {what}" for number, what in self._decisions.items() if number not in known]
        if lost and self._is_green:
            self._break("green", f"decisions that are not on record: {lost}")

    # -- what the script asks --------------------------------------------------------------------------------------

    def _is_done(self, what: str, place: str, method: str, **params: Any) -> bool:
        """Return whether the daemon says that it has done it, without a reservation."""
        result = self._ask(what, place, method, **params)
        wrong = result and (result.get("warnings") or result.get("diagnostics"))
        if wrong:
            self._effect(f"{what} with a warning: {wrong}")
        return result is not None and not wrong

    def _ask(self, what: str, place: str, method: str, **params: Any) -> dict[str, Any] | None:
        """Return the daemon's answer; None if it is an error, or if the connection ends.

        Raises:
            DaemonGoneError: nobody listens any more.
            TimeoutError: there is no answer.
        """
        try:
            if place not in self._lines:
                self._lines[place] = Admin(str(self._folder / "run" / f"{place}.sock"))
            return self._lines[place].call(method, **params)
        except AdminRefusedError as error:
            self._effect(f"{what} refused: {error}")
        except DaemonGoneError:
            self._effect(f"{what} unanswered")
            if (line := self._lines.pop(place, None)) is not None:
                line.close()
            if place == "agent":
                self._in_force.discard("of-session")  # the next connection has another one
            if not self._daemon.is_listening():
                raise
        return None

    def _begin(self, phase: str) -> None:
        self._daemon.page.phase = PHASES.index(phase)

    def _hang_up(self) -> None:
        while self._lines:
            self._lines.popitem()[1].close()

    def _effect(self, *texts: str) -> None:
        for text in texts if not self._is_second else ():
            plain = re.sub(r"\d{6,}", "N", text.replace(str(self._folder), "…"))
            if plain not in self.report.effects:
                self.report.effects.append(plain)

    def _break(self, rule: str, text: str) -> None:
        self.report.violations.append(f"{rule}: {text}{' (after the second start)' if self._is_second else ''}")

    def _log(self) -> str:
        with suppress(FileNotFoundError):
            return (self._folder / "log").read_text(errors="replace")
        return ""

    def _write(self, name: str, text: str) -> None:
        path = self._folder / "config" / name
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)


def live(fault: Fault | None, guards: tuple[str, ...] = ("forbidden",)) -> LifeReport:
    """Play the script, with this fault or, to list the places, with none."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="hl-"))  # a socket's path may have 107 bytes and no more
    try:
        life = Life(folder, fault, guards)
        life.run()
    finally:
        shutil.rmtree(folder)
    life.report.seconds = round(time.monotonic() - began, 2)
    return life.report
