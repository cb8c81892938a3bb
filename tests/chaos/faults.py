"""The nemesis: does at random, from a seed, what may befall a daemon, its workers, its clients and its files.

Each kind of fault is a method of its own; a deck holds all of them, so that each comes up once in each round.  What it
changes it writes into its own history, before and after, so that a checker can say what had to be in force.
Knows the arena and the policies; judges no answer, but says what was left behind.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from chaos import policies
from chaos.arena import AdminRefusedError, Arena, DaemonGoneError, wait_until
from chaos.checker import Violation
from chaos.history import Fault, now
from chaos.ledger import Ledger
from chaos.load import deadly_shot, shoot, stamped

__all__ = ["FAULTS", "FIRES", "Nemesis"]

CALM = 0.7  # seconds at most between two faults; less when the clients get on
RETURN = 2.0  # seconds at most until clients have found a new daemon
FIRES = 12  # that are decided between two faults, unless more are wanted
RECORD = 1000  # bytes that a decision takes in the record, about
STOPPED = 2  # faults at most that come before what was stopped may go on
STOPPED_WORKER = 8  # the same of workers: more than the deadline of a call
DEATHS = 6  # in a row, after which a hook is quarantined
TORN = b'{"seq":4711,"prev":"'  # how a record begins that was never finished

Result = dict[str, Any]


class Nemesis:
    """Does one fault after another."""

    def __init__(self, arena: Arena, seed: int, *, longest_stop: float = 0.4, fires: int = FIRES) -> None:
        self.done: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self._arena = arena
        self._random = random.Random(seed)
        self._longest_stop = longest_stop
        self._fires = fires
        self._ledger = Ledger(arena.histories / "nemesis.jsonl")
        self._stopped: list[tuple[int, int]] = []  # pidfd, and how many faults may still come before it goes on
        self._is_doomed = False  # the daemon is killed once it has the next request

    # -- the whole -------------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Write the first versions of everything, start the daemon, trust the project."""
        arena = self._arena
        arena.silent.write_text(policies.SILENT)
        arena.replace(arena.policy.with_name("switched.py"), policies.SWITCHED)
        for subject in self._ledger.versions:
            self._write(subject)
        arena.start()
        self._ledger.started()
        self._note("switched", 1, dict)
        self._trust()

    def play(self, kinds: list[str]) -> None:
        """Do these faults, in a random order."""
        deck = list(kinds)
        self._random.shuffle(deck)
        for kind in deck:
            self.step(kind)

    def step(self, kind: str) -> None:
        """Do one fault, and let the clients get on a little."""
        self._ledger.write(Fault(kind, now()))
        self.done[kind] += 1
        try:
            getattr(self, kind)()
        except DaemonGoneError:
            self._revive()
        self._resume()
        if self._arena.daemon.poll() is not None:
            self._revive()
        self.breathe()

    def breathe(self, line_timeouts: float = CALM) -> None:
        """Wait until some fires have been decided, or too long."""
        enough = self._arena.record_bytes() + self._fires * RECORD
        wait_until(lambda: self._arena.record_bytes() >= enough, line_timeouts)

    def calm(self) -> None:
        """Let everything go on, and have good versions of every file in force."""
        self._resume(everything=True)
        for act in (self.rewrite_policy, self.rewrite_shell, self.change_project):
            act()
        if not wait_until(self._is_well):
            self._complain("recovery", f"not well again: {self._ask('status')}")

    def _is_well(self) -> bool:
        diagnostics = self._ask("reload")["diagnostics"]
        return not diagnostics and self._ask("status")["health"] == "green"

    def close(self) -> None:
        self._resume(everything=True)
        self._ledger.close()

    # -- processes -------------------------------------------------------------------------------------------------

    def kill_worker(self) -> None:
        self._signal(self._arena.workers(), signal.SIGKILL)

    def kill_some_workers(self) -> None:
        for _ in range(3):
            self._signal(self._arena.workers(), signal.SIGKILL)

    def stop_worker(self) -> None:
        self._signal(self._arena.workers(), signal.SIGSTOP, STOPPED_WORKER)

    def quarantine(self) -> None:
        """Have one guard kill its worker again and again, until it is not asked any more; a new version lifts that."""
        for _ in range(DEATHS + 1):
            shot = deadly_shot(self._ledger.next_op())
            self._ledger.write(stamped(shot.sent))
            answer = shoot(str(self._arena.runtime / "agent.sock"), shot, "/")
            if answer is not None:
                self._ledger.write(answer)
        self.breathe()
        self._rewrite("policy")

    def kill_command(self) -> None:
        """Kill what a shell hook has started: it lives for a few milliseconds."""
        wait_until(self._arena.commands, CALM)
        self._signal(self._arena.commands(), signal.SIGKILL)

    def kill_zygote(self) -> None:
        self._signal(self._arena.zygotes(), signal.SIGKILL)

    def stop_zygote(self) -> None:
        self._signal(self._arena.zygotes(), signal.SIGSTOP)

    def kill_guardian(self) -> None:
        self._signal(self._arena.guardians(), signal.SIGKILL)

    def kill_client(self) -> None:
        name = self._random.choice(sorted(self._arena.clients))
        self._arena.add_client(self._arena.end_client(name))

    def stop_client(self) -> None:
        processes = [process.pid for process in self._arena.clients.values()]
        self._signal(processes, signal.SIGSTOP)

    def _signal(self, victims: list[int], number: signal.Signals, longest: int = STOPPED) -> None:
        if not victims:
            return
        try:
            pidfd = os.pidfd_open(self._random.choice(sorted(victims)))
        except ProcessLookupError:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
        if number == signal.SIGSTOP:
            self._stopped.append((pidfd, self._random.randint(1, longest)))
        else:
            os.close(pidfd)

    def _resume(self, *, everything: bool = False) -> None:
        """Let go on what was stopped long enough; it may be dead by now."""
        left = []
        for pidfd, faults in self._stopped:
            if faults and not everything:
                left.append((pidfd, faults - 1))
                continue
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)
            os.close(pidfd)
        self._stopped = left

    # -- the daemon ------------------------------------------------------------------------------------------------

    def kill_daemon(self) -> None:
        self._killed()
        self._start()

    def kill_daemon_and_tear(self) -> None:
        """End the daemon as if in the middle of writing a record."""
        self._killed()
        segments = sorted((self._arena.state / "record").glob("*.jsonl"))
        if segments:
            with segments[-1].open("ab") as file:
                file.write(TORN)
        self._start()

    def stop_daemon(self) -> None:
        """Stop the daemon for a while."""
        daemon = self._arena.daemon
        daemon.send_signal(signal.SIGSTOP)
        wait_until(lambda: daemon.poll() is not None, self._random.uniform(0.05, self._longest_stop))
        daemon.send_signal(signal.SIGCONT)

    def stop_and_kill_daemon(self) -> None:
        self._arena.daemon.send_signal(signal.SIGSTOP)
        self.breathe()
        self._killed()
        self._start()

    def restart_daemon(self) -> None:
        """Have the daemon leave well, and start the next."""
        code, left, sockets = self._arena.terminate()
        if code or left or sockets:
            self._complain("left", f"SIGTERM: exit code {code}, processes {left}, sockets {sockets}")
        self._start()

    def _killed(self) -> None:
        left = self._arena.kill()
        if left:
            self._complain("left", f"SIGKILL of the daemon: processes {left}")

    def _start(self) -> None:
        self._arena.start()
        self._ledger.started()
        self.breathe(RETURN)

    def _revive(self, change: str | None = None) -> None:
        """Go on where the daemon died in the middle of something, perhaps of a change: it has to be our doing."""
        daemon = self._arena.daemon
        if not wait_until(lambda: daemon.poll() is not None, CALM) or daemon.returncode != -signal.SIGKILL:
            self._complain("daemon", f"it hung up; exit code {daemon.poll()}: {self._arena.last_words()}")
        self._killed()
        if change is not None:
            self._ledger.lost(change)
        self._start()

    # -- files -----------------------------------------------------------------------------------------------------

    def rewrite_policy(self) -> None:
        self._rewrite("policy")

    def rewrite_shell(self) -> None:
        self._rewrite("shell")

    def rewrite_unannounced(self) -> None:
        """Leave it to the watch to find out."""
        self._write("policy")

    def rewrite_slowly(self) -> None:
        """Write a file in two steps, which the daemon may see between."""
        self._half_written()
        self._rewrite("policy")

    def die_between_two_writes(self) -> None:
        self._half_written()
        self._killed()
        self._start()
        self._rewrite("policy")

    def break_policy(self) -> None:
        self._spoil(policies.BROKEN)
        with suppress(AdminRefusedError):
            self._ask("reload")
        self.breathe()
        self._rewrite("policy")

    def start_with_broken_policy(self) -> None:
        self._start_with(policies.BROKEN)

    def start_with_empty_policy(self) -> None:
        self._start_with("")

    def start_without_policy(self) -> None:
        self._start_with(None)

    def _half_written(self) -> None:
        first, _ = policies.halves(policies.policy(self._ledger.versions["policy"] + 1))
        self._spoil("")
        self.breathe()
        self._spoil(first)
        self.breathe()

    def _start_with(self, text: str | None) -> None:
        self._spoil(text)
        self._killed()
        self._start()
        self.breathe()
        self._rewrite("policy")

    def _spoil(self, text: str | None) -> None:
        self._ledger.spoiled("policy")
        path = self._arena.policy
        if text is None:
            path.unlink()
        else:
            path.write_text(text)  # not a replacement: another process may see it half

    def _rewrite(self, subject: str) -> None:
        """Write the next version of a file and have it taken; it is in force if nothing is wrong with any."""
        self._write(subject)
        result = self._ask("reload")
        if not result["diagnostics"]:
            self._ledger.taken(subject, result["revision"])

    def _write(self, subject: str) -> None:
        arena = self._arena
        version = self._ledger.begin_version(subject)
        match subject:
            case "policy":
                arena.replace(arena.policy, policies.policy(version))
            case "shell":
                arena.write_config(version)
            case "project" if self._random.random() < 0.5:
                arena.replace(arena.guard, policies.project(version))
            case "project":
                arena.guard.write_text(policies.project(version))
        if subject == "project":
            self._ledger.bar()

    # -- what an admin does ----------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Take a guard out, or put it in again."""
        value = 1 - self._ledger.is_in["switched"]
        method = "enable" if value else "disable"
        self._note("switched", value, lambda: self._ask(method, id="switched"))

    def register(self) -> None:
        """Register a global hook, or unregister it."""
        hook = {"id": "extra", "event": "pre_tool_use", "run": f"{self._arena.silent}:silent", "timeout": 1.5}
        if self._ledger.is_in["extra"]:
            self._note("extra", 0, lambda: self._ask("unregister", id="extra"))
        else:
            self._note("extra", 1, lambda: self._ask("register", scope="global", hooks=[hook]))

    def change_project(self) -> None:
        """Rewrite a project's hooks, let them be fired untrusted for a while, and trust them."""
        self._trust_new()

    def rewrite_and_die(self) -> None:
        """Kill the daemon while it takes a new version."""
        self._is_doomed = True
        self._rewrite(self._random.choice(["policy", "shell"]))

    def trust_and_die(self) -> None:
        self._write("project")
        self._is_doomed = True
        try:
            self._trust()
        except DaemonGoneError:
            self._revive()
            self._trust()

    def lose_the_zygote_in_a_change(self) -> None:
        """Kill the zygote while a new version is proven; whatever comes of that, the next one is taken."""
        self._write("policy")
        self._arena.admin.send("reload")
        self.kill_zygote()
        result = self._arena.admin.receive()
        if not result["diagnostics"]:
            self._ledger.taken("policy", result["revision"])

    def switch_and_die(self) -> None:
        """Kill the daemon while a guard is taken out or put in, so that nobody knows whether it was; then once more."""
        self._is_doomed = True
        self.switch()

    def _trust_new(self) -> None:
        self._write("project")
        self.breathe()
        self._trust()

    def _trust(self) -> None:
        self._ledger.unbar()
        result = self._ask("trust", folder=str(self._arena.project))
        if not result["diagnostics"] and not any(hook["problem"] for hook in result["hooks"]):
            self._ledger.taken("project", result["revision"])

    def _note(self, subject: str, value: int, act: Callable[[], Result]) -> None:
        """Make a change, and write down how it began and ended; again, if the daemon died meanwhile."""
        change = self._ledger.begin(subject, value)
        try:
            result = act()
        except DaemonGoneError:
            self._revive(change)
            self._note(subject, value, act)
            return
        self._ledger.is_in[subject] = value
        self._ledger.acked(change, result.get("revision"))

    def _ask(self, method: str, **params: Any) -> Result:
        self._arena.admin.send(method, **params)
        if self._is_doomed:
            self._is_doomed = False
            self._arena.daemon.send_signal(signal.SIGKILL)
        return self._arena.admin.receive()

    def _complain(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule, text))


FAULTS = [
    "kill_worker", "kill_some_workers", "stop_worker", "quarantine", "kill_command", "kill_zygote", "stop_zygote",
    "kill_guardian", "kill_client", "stop_client", "kill_daemon", "kill_daemon_and_tear", "stop_daemon",
    "stop_and_kill_daemon", "restart_daemon", "rewrite_policy", "rewrite_shell", "rewrite_unannounced",
    "rewrite_slowly", "die_between_two_writes", "break_policy", "start_with_broken_policy", "start_with_empty_policy",
    "start_without_policy", "switch", "register", "change_project", "switch_and_die", "rewrite_and_die",
    "trust_and_die", "lose_the_zygote_in_a_change",
]  # fmt: skip
