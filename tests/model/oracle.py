"""What the daemon must say, by docs/reference/hooks.md and docs/reference/protocol.md.

Synchronous, and written apart from the daemon.  Knows sessions, hooks, deaths and moments; imports nothing of what it
judges.  A fire is a generator: it stops where a hook does not answer before it is let go, so that what happens
meanwhile can be told, and returns what is to be decided.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

ADMIN = "admin"
LINGER, INTENSITY, PERIOD, FIRST_PROBE, LAST_PROBE = 60.0, 5, 30.0, 1.0, 60.0
GATE, NOTIFY, AMEND, CLAIM = "pre_tool_use", "post_tool_use", "post_model", "error_recover"
MATCHED = {GATE: "tool_name", NOTIFY: "tool_name", AMEND: "model_id", CLAIM: "error_type"}
PATCHED = {GATE: "tool_input", AMEND: "response"}
LEGAL = {GATE: {"allow", "deny", "ask", "halt"}, NOTIFY: {"halt"}, AMEND: set[str](), CLAIM: {"claim"}}
WORDS = {"allow", "deny", "ask", "halt", "claim"}
PATCHES = {"mark", "bump"}
FAILURES = {"raise": "crash", "exit": "crash", "hang": "timeout", "garbage": "protocol"}
DROPPED = {"overload", "quarantined", "draining"}


@dataclass(frozen=True)
class Hook:
    """A registered hook; `name` is told to its callback, so that an answer shows which registration gave it."""

    id: str
    event: str
    match: tuple[str, ...] | None
    priority: int
    name: str
    build: int
    layer: str = "session"
    enabled: bool = True
    amends: bool = False
    where: str | None = None  # a condition on `tool_input.n`


@dataclass
class Breaker:
    """Deaths of one hook's workers, and what follows of them."""

    deaths: list[float] = field(default_factory=list)
    wait: float = FIRST_PROBE
    until: float | None = None  # quarantined where set
    is_probing: bool = False

    def permits(self, now: float) -> bool:
        if self.until is None:
            return True
        if self.is_probing or now < self.until:
            return False
        self.is_probing = True
        return True

    def died(self, now: float) -> None:
        if self.is_probing:
            self.wait, self.is_probing = min(self.wait * 2, LAST_PROBE), False
            self.until = now + self.wait
            return
        self.deaths = [at for at in [*self.deaths, now] if at > now - PERIOD]
        if self.until is None and len(self.deaths) > INTENSITY:
            self.wait, self.until = FIRST_PROBE, now + FIRST_PROBE

    def lived(self) -> None:
        if self.is_probing:
            self.deaths, self.wait, self.until, self.is_probing = [], FIRST_PROBE, None, False


@dataclass
class Viewer:
    """A session, or the admin: its own layer, in the order of registration, and what was switched in it."""

    name: str
    own: dict[str, Hook] = field(default_factory=dict)
    switches: dict[str, bool] = field(default_factory=dict)
    connections: int = 0
    left_at: float = 0.0

    def hooks(self) -> list[Hook]:
        if not self.switches:
            return list(self.own.values())
        return [replace(hook, enabled=self.switches.get(hook.id, hook.enabled)) for hook in self.own.values()]


@dataclass
class Fired:
    """One fire: what it began with, and what came of each of its hooks so far."""

    event: str
    payload: dict[str, Any]
    hooks: list[Hook]
    do: dict[str, str]
    outcomes: list[tuple[str, str, str, str | None, str | None, bool]] = field(default_factory=list)


Result = dict[str, Any]
Playing = Generator[None, None, Result]


class Oracle:
    """The whole daemon, as far as a script can see it."""

    def __init__(self, build: int = 0) -> None:
        self.build = build
        self.now = 0.0
        self.is_draining = False
        self.admin = Viewer(ADMIN, connections=1)
        self.sessions: dict[str, Viewer] = {}
        self.breakers: dict[tuple[str, str, int], Breaker] = {}

    # -- who is there ----------------------------------------------------------------------------------------

    def viewer(self, who: str) -> Viewer:
        return self.admin if who == ADMIN else self.sessions[who]

    def at(self, now: float) -> None:
        """Let time pass: a session ends 60 s after its last connection."""
        self.now = now
        gone = [name for name, one in self.sessions.items() if not one.connections and now >= one.left_at + LINGER]
        for name in gone:
            del self.sessions[name]
            self.breakers = {key: one for key, one in self.breakers.items() if key[0] != name}

    def hello(self, who: str, *, has_token: bool) -> str | None:
        """Open or resume a session; give the error's name if that is refused."""
        if who in self.sessions and not has_token:
            return "session_in_use"
        self.sessions.setdefault(who, Viewer(who)).connections += 1
        return None

    def leave(self, who: str) -> None:
        self.sessions[who].connections -= 1
        self.sessions[who].left_at = self.now

    def view(self, who: str) -> list[Hook]:
        """What somebody sees: the global layer and its own, each by priority, then by registration."""
        layers = [self.admin.hooks(), self.viewer(who).hooks() if who != ADMIN else []]
        return [hook for layer in layers for hook in sorted(layer, key=lambda hook: -hook.priority)]

    # -- changes ---------------------------------------------------------------------------------------------

    def register(self, who: str, hooks: list[Hook]) -> str | None:
        """Register all of them or none; a replaced hook keeps its place."""
        ids = [hook.id for hook in hooks]
        if any(hook.event == "no_such_event" for hook in hooks):
            return "unknown_event"  # it is the last one, and its event is looked up before its id is compared
        if len(set(ids)) < len(ids):
            return "invalid_params"
        layer = "global" if who == ADMIN else "session"
        self.viewer(who).own.update({hook.id: replace(hook, layer=layer, build=self.build) for hook in hooks})
        return None

    def unregister(self, who: str, hook_id: str) -> None:
        self.viewer(who).own.pop(hook_id, None)
        self.viewer(who).switches.pop(hook_id, None)

    def switch(self, who: str, hook_id: str, *, enabled: bool) -> str | None:
        viewer = self.viewer(who)
        if hook_id not in viewer.own:
            return "not_found"
        viewer.switches[hook_id] = enabled
        if enabled:
            self.breakers = {key: one for key, one in self.breakers.items() if key[:2] != (who, hook_id)}
        return None

    def reload(self, build: int) -> None:
        """Take a new version of the one source: every hook runs it from now on, and nothing is quarantined."""
        self.build = build
        self.breakers.clear()
        for viewer in (self.admin, *self.sessions.values()):
            viewer.own = {key: replace(hook, build=build) for key, hook in viewer.own.items()}

    def is_quarantined(self, who: str, hook: Hook) -> bool:
        return self.breaker(who, hook).until is not None

    def breaker(self, who: str, hook: Hook) -> Breaker:
        owner = ADMIN if hook.layer == "global" else who
        return self.breakers.setdefault((owner, hook.id, hook.build), Breaker())

    # -- fires -----------------------------------------------------------------------------------------------

    def fire(self, who: str, event: str, payload: dict[str, Any]) -> Playing:
        """Decide one fire, on what is in force now."""
        seen = [hook for hook in self.view(who) if hook.event == event and hook.enabled]
        if self.is_draining:
            return refused(event, "draining")
        value = payload.get(MATCHED[event])
        if event == GATE and value is None and any(hook.match is not None for hook in seen):
            return refused(event, "payload")
        hooks = [hook for hook in seen if hook.match is None or value in hook.match]
        if event != GATE:  # nothing changes there while it is judged
            hooks = [hook for hook in hooks if is_meant(hook, payload)]
        fired = Fired(event, payload, hooks, payload["do"])
        return {GATE: self.gate, NOTIFY: self.notify, AMEND: self.amend, CLAIM: self.claim}[event](who, fired)

    def ask(
        self, who: str, fired: Fired, hook: Hook, shown: dict[str, Any], *, again: bool = False
    ) -> Generator[None, None, tuple[str, str, dict[str, Any]]]:
        """Ask one hook; give its word (or "fail"), its reason or cause, and its patch."""
        action, breaker = fired.do.get(hook.id, "pass"), self.breaker(who, hook)
        key = PATCHED.get(fired.event, "tool_input")
        patch: dict[str, Any] = {}
        word, cause = "pass", FAILURES.get(action)
        if not breaker.permits(self.now):
            cause = "quarantined"
        else:
            if action == "hold":
                yield
                breaker = self.breaker(who, hook)  # it may have been lifted
            if action in ("exit", "hang"):
                breaker.died(self.now)
            else:
                breaker.lived()
            if action in PATCHES and fired.event not in PATCHED:
                cause = "protocol"
            elif action in PATCHES:
                value = dict(shown.get(key) or {})
                value.update({"marked": said(hook)} if action == "mark" else {"n": value.get("n", 0) + 1})
                patch = {key: value}
            elif action in WORDS:
                word, cause = (action, None) if action in LEGAL[fired.event] else ("pass", "protocol")
        kind = "answered" if cause is None else "dropped" if cause in DROPPED else "failed"
        verdict = word if cause is None and word != "pass" else None
        fired.outcomes.append((hook.layer, hook.id, kind, cause or "policy", verdict, again))
        return ("fail", cause, {}) if cause is not None else (word, said(hook), patch)

    def gate(self, who: str, fired: Fired) -> Playing:
        """Who amends speaks first, the session before the operator; the others judge what came of it.

        Where one of those changes it yet, all are asked again who have neither seen nor made what it has become.
        """
        shown = fired.payload
        words: dict[Hook, tuple[str, dict[str, Any]]] = {}  # the last word of each, and what it was about
        marked = [hook for hook in fired.hooks if hook.amends]
        first = [hook for layer in ("session", "global") for hook in marked if hook.layer == layer]
        for phase, asked in enumerate((first, fired.hooks, fired.hooks)):
            is_again = phase == 2
            before = shown
            for hook in asked:
                if not is_meant(hook, shown) or (hook in words and not (is_again and words[hook][1] != shown)):
                    continue
                word, text, patch = yield from self.ask(who, fired, hook, shown, again=is_again)
                if word == "fail":
                    return result(fired, "deny", text, hook)
                if word in ("deny", "halt"):
                    return result(fired, word, "policy", hook, reason=text)
                if is_again and {**shown, **patch} != shown:
                    return result(fired, "deny", "unsettled", hook)
                shown = {**shown, **patch}
                words[hook] = word, shown
            if phase and shown == before:
                break
        made = {key: value for key, value in shown.items() if fired.payload.get(key) != value} or None
        spoken = [hook for hook in fired.hooks if hook in words]
        for hook in spoken:
            if words[hook][0] == "ask":
                return result(fired, "ask", "policy", hook, reason=said(hook), patch=made)
        for hook in spoken:
            if words[hook] == ("allow", shown):
                return result(fired, "allow", "policy", hook, reason=said(hook), patch=made)
        return result(fired, "pass", patch=made)

    def notify(self, who: str, fired: Fired) -> Playing:
        """All of them, whatever they say; the first halt by order is a wish."""
        halting: Hook | None = None
        for hook in fired.hooks:
            word, _, _ = yield from self.ask(who, fired, hook, fired.payload)
            halting = halting or (hook if word == "halt" else None)
        if halting is not None:
            return result(fired, "halt", "policy", halting, reason=said(halting))
        return result(fired, "pass")

    def amend(self, who: str, fired: Fired) -> Playing:
        """In order, each shown the payload as amended so far; what fails is skipped."""
        shown, made = fired.payload, dict[str, Any]()
        for hook in fired.hooks:
            _, _, patch = yield from self.ask(who, fired, hook, shown)
            made, shown = {**made, **patch}, {**shown, **patch}
        return result(fired, "pass", patch=made or None)

    def claim(self, who: str, fired: Fired) -> Playing:
        """In order, until one says that it is its own."""
        for hook in fired.hooks:
            word, text, _ = yield from self.ask(who, fired, hook, fired.payload)
            if word == "claim":
                return result(fired, "claim", "policy", hook, value=text)
        return result(fired, "pass")


def is_meant(hook: Hook, shown: dict[str, Any]) -> bool:
    """Whether a hook's condition holds for what it would be shown."""
    return {None: True, ">= 1": shown["tool_input"]["n"] >= 1, "< 1": shown["tool_input"]["n"] < 1}[hook.where]


def said(hook: Hook) -> str:
    """What a callback says of itself: which registration called it, and of which version of the file it is."""
    return f"{hook.name}@{hook.build}"


def refused(event: str, cause: str) -> Playing:
    """A fire whose hooks are not called."""
    yield from ()
    fired = Fired(event, {}, [], {})
    return result(fired, "deny", cause) if event == GATE else result(fired, "pass")


def result(fired: Fired, verdict: str, cause: str | None = None, hook: Hook | None = None, **said: Any) -> Result:
    return {
        "verdict": verdict,
        "cause": cause,
        "hook": hook.id if hook is not None else None,
        "layer": hook.layer if hook is not None else None,
        "reason": said.get("reason"),
        "patch": said.get("patch"),
        "value": said.get("value"),
        "outcomes": list(fired.outcomes),
    }
