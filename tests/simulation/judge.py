"""The judge of decisions: what must always hold, whatever else happens.  Knows what hooks were told to do.

A  the verdict is what the hooks say, and an answer is to its own question
B  nobody is refused, or blamed, for what did not happen
C  each waiter gets an end, in time
E  what was acknowledged is in force
H  a notification costs nothing but itself
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from simulation.sources import FAILING, REFUSING

__all__ = ["Asked", "Judge", "Known", "Versions"]

# Seconds in which a fire ends, by its event's budget, without what it waits for a person.
ANSWERED_WITHIN = {"pre_tool_use": 12.0}
ANSWERED_WITHIN_ELSE = 34.0
ASK_WAIT = 15.0
# How long after a blow a gate may still be refused for these causes, which are no hook's word.
EXCUSES = {
    "crash": 6.0, "timeout": 14.0, "overload": 14.0, "quarantined": 130.0, "load": 40.0, "audit": 12.0,
    "draining": 12.0, "shutdown": 12.0, "unsettled": 0.0,
}  # fmt: skip
NO_WORKER = "no worker became free"


@dataclass(eq=False)
class Versions:
    """A file of hooks: an answer names a version from `lowest`, which was acknowledged, to `highest`."""

    name: str
    path: str
    lowest: int = 1
    written: int = 1  # the last one that is whole
    highest: int = 1  # the last one that a write has begun of
    is_broken: bool = False


@dataclass(eq=False)
class Known:
    """A hook, as far as its registration was acknowledged."""

    name: str
    versions: Versions
    event: str = "pre_tool_use"
    is_certain: bool = False  # it is in force, and nothing about it changes now
    stamp: int = 0  # grows whenever something about it begins or ends to change
    match: str | None = None
    registered: int = 1  # the version that its registration has found

    @property
    def lowest(self) -> int:
        return max(self.versions.lowest, self.registered)

    @contextmanager
    def changing(self, *, is_certain: bool) -> Generator[None]:
        """Change it in this block; then it is in force, or is not. Without an end of the block it stays uncertain."""
        self.is_certain = False
        self.stamp += 1
        yield
        self.stamp += 1
        self.is_certain = is_certain


@dataclass
class Asked:
    """A fire, and what was known when it was sent."""

    event: str
    nonce: str
    do: Mapping[str, str]
    began: float
    certain: dict[Known, int] = field(default_factory=dict)
    possible: list[Known] = field(default_factory=list)
    lowest: dict[str, int] = field(default_factory=dict)
    must_deny: str | None = None  # why every verdict but deny is wrong


class Judge:
    """The judge. `violate` is called with each violation, `answer_of` says how a person answered an ask."""

    def __init__(self, violate: Callable[[str], None], now: Callable[[], float]) -> None:
        self._violate, self._now = violate, now
        self.blows: dict[str, float] = {}  # when each kind of blow was dealt last
        self.decisions: set[str] = set()
        self.answers: dict[str, str] = {}  # of a person, by decision
        self._totals: set[int] = set()  # that the counting hook has told
        self._hung = -1e9  # when a hook was last told to hang
        self.counted = 0  # how often it was asked to count

    def blow(self, kind: str = "blow") -> None:
        """Note that the world does something now that may cost a gate its answer."""
        self.blows[kind] = self._now()

    def forget_counts(self, *, is_zero: bool) -> None:
        """Take note that counts begin at zero again, or where a loss of power has left them."""
        self._totals = set()
        if is_zero:
            self.counted = 0

    def _is_excused(self, cause: str, reason: str, began: float) -> bool:
        last = max(self.blows.values(), default=-1e9)
        if NO_WORKER in reason:
            last = max(last, self._hung)
        return last >= began - EXCUSES.get(cause, 0.0)

    def begin(self, event: str, nonce: str, do: Mapping[str, str], hooks: list[Known], tool: str | None) -> Asked:
        """Note what is known when a fire is sent."""
        asked = Asked(event, nonce, do, self._now())
        if any(what in ("hang", "drop") for what in do.values()):
            self._hung = asked.began  # it takes a worker, or a few, from all others
        for hook in hooks:
            if hook.event == event and hook.match in (None, tool):
                asked.possible.append(hook)
                asked.lowest[hook.name] = hook.lowest
                if hook.is_certain:
                    asked.certain[hook] = hook.stamp
        return asked

    def end(self, asked: Asked, decision: Mapping[str, Any]) -> None:
        """Judge a decision."""
        shown = f"{asked.event} {dict(asked.do)} {asked.nonce}: {dict(decision)}"
        certain = [hook for hook, stamp in asked.certain.items() if hook.is_certain and hook.stamp == stamp]
        if decision["decision_id"] in self.decisions:
            self._violate(f"A: one decision id twice: {shown}")
        self.decisions.add(decision["decision_id"])
        took = self._now() - asked.began
        is_asking = any(what == "ask" for what in asked.do.values())
        if took > ANSWERED_WITHIN.get(asked.event, ANSWERED_WITHIN_ELSE) + (ASK_WAIT if is_asking else 0.0):
            self._violate(f"C: it took {took:.1f} s: {shown}")
        if asked.event == "pre_tool_use":
            self._judge_gate(asked, decision, certain, shown)
        elif decision["verdict"] not in ("pass", "halt"):
            self._violate(f"H: a notification refused: {shown}")

    def _judge_gate(self, asked: Asked, decision: Mapping[str, Any], certain: list[Known], shown: str) -> None:
        verdict, cause, reason = decision["verdict"], decision["cause"], decision["reason"] or ""
        words = {hook.name: asked.do.get(hook.name, "pass").partition(":")[0] for hook in asked.possible}
        is_counted = [hook for hook in certain if hook.match == "Count"]
        refusing = {name: what for name, what in words.items() if what in REFUSING}
        if verdict not in ("deny", "halt"):
            for hook in certain:
                if words[hook.name] in REFUSING:
                    self._violate(f"A: a gate passed that {hook.name} refuses: {shown}")
            if is_counted:
                self._violate(f"A: a gate passed that the counting hook refuses: {shown}")
            if asked.must_deny is not None:
                self._violate(f"A: a gate passed although {asked.must_deny}: {shown}")
        if decision.get("record") is None and verdict not in ("deny", "halt"):
            self._violate(f"F: a gate passed without a record: {shown}")
        name = (decision["hook"] or "").rpartition(":")[2]
        if cause == "policy" and verdict in ("deny", "allow", "ask", "halt"):
            if decision["decision_id"] in self.answers and verdict != "halt":
                given = self.answers[decision["decision_id"]]
                if words.get(name) == "ask" and verdict != given:
                    self._violate(f"A: a person said {given}: {shown}")
                if verdict == given:
                    return
            self._judge_words(asked, name, words.get(name), verdict, reason, shown)
            return
        if verdict == "deny" and name and cause in FAILING.values():
            if FAILING.get(words.get(name, "")) == cause:
                return
            if not self._is_excused(cause, reason, asked.began):
                self._violate(f"B: {name} is blamed for a {cause}: {shown}")
        elif verdict == "deny" and not refusing and asked.must_deny is None and not is_counted:
            is_own = "ask" in words.values() or (cause == "unsettled" and list(words.values()).count("mark") > 1)
            if not is_own and not self._is_excused(cause, reason, asked.began):
                self._violate(f"B: a gate is refused without a reason: {shown}")

    def _judge_words(self, asked: Asked, name: str, what: str | None, verdict: str, reason: str, shown: str) -> None:
        words = reason.split()
        known = next((hook for hook in asked.possible if hook.name == name), None)
        if known is None:
            self._violate(f"A: a hook decided that was not asked: {shown}")
            return
        if len(words) < 3 or words[:2] != [name, asked.nonce] or not words[2].startswith("v"):
            if what != "ask":
                self._violate(f"A: the answer to another question: {shown}")
            return
        version = int(words[2][1:])
        lowest, highest = asked.lowest[name], known.versions.highest
        if not lowest <= version <= highest:
            self._violate(f"E: version {version} of {name} is not in force, {lowest} to {highest} may be: {shown}")
        if known.match == "Count":
            self._judge_total(name, int(words[3]), asked, shown)
        elif what != verdict and not (what == "ask" and verdict == "deny"):
            self._violate(f"A: {name} was told to say {what}: {shown}")

    def _judge_total(self, name: str, total: int, asked: Asked, shown: str) -> None:
        """Counts are exact: none is given twice, and none is skipped but by a fire without an answer."""
        if total in self._totals:
            self._violate(f"G: the count {total} was given twice: {shown}")
        self._totals.add(total)
        if total > self.counted:
            self._violate(f"G: {total} counted, {self.counted} asked for: {shown}")
