"""The judge of decisions: what must always hold, whatever else happens.  Knows what hooks were told to do.

A  the verdict is what the hooks say, and an answer is to its own question
B  nobody is refused, or blamed, for what did not happen
C  each waiter gets an end, in time
E  what was acknowledged is in force
G  a count is given once
H  a notification costs nothing but itself

A decision says what came of each hook that was called: each of these outcomes is judged, and then the verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from simulation.sources import FAILING, REFUSING

__all__ = ["ACTIVE", "LONG", "SUSPENDED_FOR", "Asked", "Judge", "Known", "Versions", "find_state", "request_change"]

# Seconds in which a fire ends, by its event's budget, without what it waits for a person.
ANSWERED_WITHIN = {"pre_tool_use": 20.0}
ANSWERED_WITHIN_ELSE = 34.0
ASK_WAIT = 15.0
# For how many seconds after which blows a hook may have failed for these causes, which are no hook's word.
EXCUSES: dict[str, tuple[float, tuple[str, ...]]] = {
    "crash": (6.0, ("process", "worker")), "timeout": (14.0, ("process",)), "overload": (14.0, ("process", "flood")),
    "load": (40.0, ("file", "process", "worker", "start")), "audit": (15.0, ("disk",)), "draining": (12.0, ("end",)),
    "shutdown": (12.0, ("end",)),
}  # fmt: skip
NOTICED = 6.0  # seconds after which a file that was written is loaded, though nobody has reloaded
DEATHS, DEATHS_WITHIN = 3, 200.0  # deaths without which no hook is quarantined, and seconds for which they count
QUEUED = ("no worker became free", "no time was left", "its turn")
LETHAL = ("exit", "hang")
LONG = "slow:0.7"  # so many of these come at once that some find no worker in time
ACTIVE = "active"
SUSPENDED_FOR = 600.0


@dataclass(eq=False)
class Versions:
    """A file of hooks: an answer names a version from `lowest`, which was acknowledged, to `highest`."""

    name: str
    path: str
    lowest: int = 1
    written: int = 1  # the last one that is whole
    highest: int = 1  # the last one that a write has begun of
    is_broken: bool = False
    is_gone: bool = False
    written_at: float = 0.0

    def begin(self) -> int:
        """Take note that a write of another version begins. Return its number."""
        self.highest += 1
        return self.highest


@dataclass(eq=False)
class Known:
    """A hook, as far as changes of it were acknowledged."""

    name: str
    versions: Versions
    event: str = "pre_tool_use"
    state: str | None = None  # that is acknowledged, as the daemon says it, or "gone"; None while it may be any
    stamp: int = 0  # grows whenever something about it begins or ends to change
    match: str | None = None
    registered: int = 1  # the version that its registration has found
    id: str = ""
    until: float = 0.0  # of a suspension, by the wall clock
    deaths: list[float] = field(default_factory=list)  # when it was told to die

    def lowest(self, now: float) -> int:
        """Return the oldest version that may answer."""
        versions = self.versions
        if versions.written == versions.highest and self.name != "p" and now > versions.written_at + NOTICED:
            return versions.written
        return max(versions.lowest, self.registered)

    @contextmanager
    def changing(self, to: str | None) -> Generator[None]:
        """Change it in this block. It has the state after it; without an end of the block that stays unknown."""
        self.state = None
        self.stamp += 1
        yield
        self.become(to)

    def become(self, state: str | None) -> None:
        """Take note of a change that is over."""
        self.stamp += 1
        self.state = state


@dataclass
class Asked:
    """A fire, and what was known when it was sent."""

    event: str
    nonce: str
    do: Mapping[str, str]
    began: float
    hooks: dict[str, Known]
    stamps: dict[Known, int]
    lowest: dict[str, int]
    must_deny: str | None = None  # why every verdict but deny is wrong
    shown: str = ""

    def told(self, name: str) -> str:
        """Return what a hook was told to do."""
        return self.do.get(name, "pass").partition(":")[0]

    def those(self, *states: str) -> list[Known]:
        """Return the hooks that were in one of these states all the time."""
        return [hook for hook, stamp in self.stamps.items() if hook.stamp == stamp and hook.state in states]


class Judge:
    """The judge. `violate` is called with each violation."""

    def __init__(self, violate: Callable[[str], None], now: Callable[[], float]) -> None:
        self.violate, self._now = violate, now
        self.blows: dict[str, float] = defaultdict(lambda: -1e9)  # when each kind of blow was dealt last
        self._dealt: list[float] = []  # when processes were dealt one
        self.verdicts: dict[str, object] = {}  # that were answered, by decision
        self._heard: dict[str, tuple[object, object]] = {}  # that were answered or announced, with their causes
        self.answers: dict[str, str | None] = {}  # of a person, by decision, with ? if late; None if it may be lost
        self._totals: set[int] = set()  # that the counting hook has told
        self.counted = 0  # how often it was asked to count

    def blow(self, kind: str = "process") -> None:
        """Note that the world does something now that may cost a gate its answer."""
        self.blows[kind] = self._now()
        if kind in ("process", "worker"):
            self._dealt.append(self._now())

    def forget_counts(self, *, is_zero: bool) -> None:
        """Take note that counts begin at zero again, or where a loss of power has left them."""
        self._totals = set()
        if is_zero:
            self.counted = 0

    def begin(self, event: str, nonce: str, do: Mapping[str, str], hooks: list[Known], tool: str | None) -> Asked:
        """Note what is known when a fire is sent."""
        now = self._now()
        here = {hook.name: hook for hook in hooks if hook.event == event and hook.match in (None, tool)}
        asked = Asked(
            event, nonce, do, now, here, {hook: hook.stamp for hook in here.values()},
            {name: hook.lowest(now) for name, hook in here.items()},
        )  # fmt: skip
        for name, hook in here.items():
            if asked.told(name) in LETHAL or do.get(name) == LONG:
                self.blow(hook.versions.path)  # a worker of this file is taken from all others
            if asked.told(name) in LETHAL:
                hook.deaths.append(now)
        return asked

    def end(self, asked: Asked, decision: Mapping[str, Any]) -> None:
        """Judge a decision."""
        asked.shown = f"{asked.event} {dict(asked.do)} {asked.nonce}: {dict(decision)}"
        if decision["decision_id"] in self.verdicts:
            self._wrong("A: one decision id twice", asked)
        self.verdicts[decision["decision_id"]] = decision["verdict"]
        self.hear(decision)
        took, is_asking = self._now() - asked.began, not {"ask", "plain"}.isdisjoint(asked.do.values())
        if took > ANSWERED_WITHIN.get(asked.event, ANSWERED_WITHIN_ELSE) + (ASK_WAIT if is_asking else 0.0):
            self._wrong(f"C: it took {took:.1f} s", asked)
        called = {one["hook"].rpartition(":")[2]: one for one in decision.get("outcomes") or ()}
        for name, outcome in called.items():
            self._judge_outcome(asked, name, outcome)
        if decision["verdict"] == "pass" and not decision["cause"]:
            for hook in asked.those(ACTIVE):
                if hook.name not in called:
                    self._wrong(f"A: it passed, and {hook.name} was not called", asked)
        if asked.event == "pre_tool_use":
            self._judge_gate(asked, decision, called)
        elif decision["verdict"] not in ("pass", "halt"):
            self._wrong("H: a notification refused", asked)
        elif (decision["verdict"] == "halt") != any(one.get("verdict") == "halt" for one in called.values()):
            self._wrong("A: a notification has another verdict than its hooks", asked)

    def hear(self, decision: Mapping[str, Any]) -> None:
        """Take note of what a decision was answered as, or announced as: the same."""
        name, said = decision["decision_id"], (decision["verdict"], decision["cause"])
        if self._heard.setdefault(name, said) != said:
            self.violate(f"A: {name} is both {said} and {self._heard[name]}")

    def _wrong(self, text: str, asked: Asked) -> None:
        self.violate(f"{text}: {asked.shown}")

    # -- what came of each hook --------------------------------------------------------------------------------

    def _judge_outcome(self, asked: Asked, name: str, outcome: Mapping[str, Any]) -> None:
        hook, told = asked.hooks.get(name), asked.told(name)
        if hook is None:
            if outcome["cause"] != "load":  # a stand-in for a whole file, or a project
                self._wrong(f"A: {name} was called, which is not there", asked)
            return
        if outcome.get("stdout") and "print" not in asked.do.get(name, ""):
            self._wrong(f"A: {name} has the output of another call", asked)
        if hook in asked.those("disabled", "suspended", "gone"):
            self._wrong(f"E: {name} was called, which is {hook.state}", asked)
        if outcome["outcome"] == "answered":
            self._judge_answer(asked, hook, told, outcome)
            return
        message = outcome.get("message") or ""
        if hook.match == "Count" and "StateError" in message and "mark" not in asked.do.values():
            self.counted -= 1  # it was refused
        if outcome["cause"] not in expected_failures(asked, name):
            is_gone = not hook.versions.path and hook not in asked.those(ACTIVE)  # the client that serves it has left
            if not is_gone and not self._is_excused(outcome["cause"], message, asked.began, hook):
                self._wrong(f"B: {name} is blamed for a {outcome['cause']}", asked)

    def _judge_answer(self, asked: Asked, hook: Known, told: str, outcome: Mapping[str, Any]) -> None:
        verdict, patch = outcome.get("verdict"), outcome.get("patch")
        if hook.match == "Count":
            expected, said = "allow", outcome.get("message")
        else:
            expected = told if told in ("deny", "allow", "ask", "halt") else None
            marked = [value["marked"] for value in (patch or {}).values() if "marked" in value]
            said = marked[0] if marked else outcome.get("message") if verdict else None
            if (told == "mark") != bool(marked):
                self._wrong(f"A: {hook.name} was told to {told}, and its patch is {patch}", asked)
        is_open = (told == "unmarked" and verdict in ("deny", None)) or (told == "plain" and verdict in ("ask", None))
        if (verdict != expected and not is_open) or (
            told in FAILING and told != "twice"
        ):  # its second answer may come too late to count
            self._wrong(f"A: {hook.name} was told to {told} and said {verdict}", asked)
        if said is None:
            return
        words = said.split()
        if len(words) < 3 or words[:2] != [hook.name, asked.nonce]:
            self._wrong("A: the answer to another question", asked)
            return
        if hook is not None and hook.versions.path:
            version, lowest, highest = int(words[2][1:]), asked.lowest[hook.name], hook.versions.highest
            if not lowest <= version <= highest:
                self._wrong(f"E: version {version} of {hook.name} is not in force, {lowest} to {highest} may be", asked)
            hook.versions.lowest = max(hook.versions.lowest, version)  # a fire from now on gets no older one
        if hook.match == "Count":
            self._judge_total(int(words[3]), asked)

    def _judge_total(self, total: int, asked: Asked) -> None:
        """Counts are exact: none is given twice, and none is skipped but by a fire without an answer."""
        if "mark" not in asked.do.values():  # else it was called again, and the total may be that of a later fire
            if total in self._totals:
                self._wrong(f"G: the count {total} was given twice", asked)
            self._totals.add(total)
        if total > self.counted:
            self._wrong(f"G: {total} counted, {self.counted} asked for", asked)

    def _is_excused(self, cause: str, text: str, began: float, hook: Known | None = None) -> bool:
        if cause == "quarantined":
            times = [*(hook.deaths if hook is not None else ()), *self._dealt]
            return sum(moment > began - DEATHS_WITHIN for moment in times) >= DEATHS
        seconds, kinds = EXCUSES.get(cause, (0.0, ()))
        if cause == "timeout" and text.startswith(QUEUED):
            kinds = (*kinds, "flood")
        if cause in ("timeout", "overload") and hook is not None:
            kinds = (*kinds, hook.versions.path)
        if cause == "load" and hook is not None and hook.name == "p":
            kinds = (*kinds, "project")
        if cause == "crash" and text.startswith("StateError"):
            kinds = (*kinds, "disk")
            if "cannot be read" in text and self.blows["power"] > 0.0:
                return True  # a loss of power may tear the kept state, which then denies until it is mended
        return any(self.blows[kind] >= began - seconds for kind in kinds)

    # -- the verdict of a gate -----------------------------------------------------------------------------------

    def _judge_gate(self, asked: Asked, decision: Mapping[str, Any], called: Mapping[str, Mapping[str, Any]]) -> None:
        verdict, cause, answer = decision["verdict"], decision["cause"], self.answers.get(decision["decision_id"], "")
        if verdict not in ("deny", "halt"):
            for hook in asked.those(ACTIVE):
                if asked.told(hook.name) in REFUSING:
                    self._wrong(f"A: a gate passed that {hook.name} refuses", asked)
                if asked.told(hook.name) == "unmarked" and "marked" in str(decision.get("patch")):
                    self._wrong(f"A: a gate passed with a change that {hook.name} refuses", asked)
            if asked.must_deny is not None:
                self._wrong(f"A: a gate passed although {asked.must_deny}", asked)
            if decision.get("record") is None:
                self._wrong("F: a gate passed without a record", asked)
        deciding = (decision["hook"] or "").rpartition(":")[2]
        said = {name: one.get("verdict") for name, one in called.items()}
        if cause == "policy" and said.get(deciding) == "ask":
            if answer is not None and verdict not in (answer, answer.removesuffix("?")):
                self._wrong(f"A: a person said {answer!r}", asked)
        elif cause == "policy":
            if said.get(deciding) != verdict:
                self._wrong(f"A: {deciding} decided, and said {said.get(deciding)}", asked)
        elif verdict != "pass" and deciding in called and called[deciding]["cause"] == cause:
            return  # judged as its outcome
        elif verdict == "pass" and any(said.values()):
            self._wrong("A: a gate passed though a hook has an opinion", asked)
        elif verdict == "deny" and asked.must_deny is None:
            marks = [name for name, one in called.items() if one.get("patch")]
            is_own = (cause == "unsettled" and len(marks) > 1) or (cause == "unanswered" and "ask" in said.values())
            is_own = is_own or (cause == "overload" and "ask" in said.values())
            if not is_own and not self._is_excused(str(cause), decision["reason"] or "", asked.began):
                self._wrong("B: a gate is refused without a reason", asked)


def expected_failures(asked: Asked, name: str) -> set[str | None]:
    """Return the causes that a hook has been told to fail for."""
    told, causes = asked.told(name), {FAILING.get(asked.told(name))}
    if asked.do.get(name) == "unmarked:raise":
        causes = {"crash"}
    if asked.event != "pre_tool_use" and told in ("ask", "allow", "deny", "mark", "unmarked", "plain", "halt"):
        causes.add("protocol")
    return causes


def request_change(hook: Known, to: str, run: str) -> tuple[str, dict[str, Any]]:
    """Return the method, and its params, by which an administrator brings a hook to a state."""
    named, here = {"id": hook.id}, {"id": hook.id, "scope": "global"}
    if to == "suspended":
        return "suspend", {**named, "seconds": SUSPENDED_FOR, "reason": "sim"}
    if to != ACTIVE:
        return {"disabled": "disable", "gone": "unregister"}[to], here
    if hook.state == "gone":
        table = {"id": hook.id, "event": "pre_tool_use", "run": run, "config": {"id": hook.id}}
        return "register", {"hooks": [table], "scope": "global"}
    return ("resume", named) if hook.state == "suspended" else ("enable", here)


def find_state(hook: Known, report: dict[str, Any]) -> str:
    """Return a state of the operator's hook, as a report has it."""
    for one in report["hooks"]:
        if one["layer"] == "global" and one["id"] == hook.id:
            return str(one["state"])
    return "gone"
