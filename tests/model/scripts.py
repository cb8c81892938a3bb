"""Random scripts: what sessions and an admin do, one step after the other.  Knows steps; knows no daemon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from model.oracle import ADMIN, AMEND, CLAIM, GATE, NOTIFY

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "Advance", "Close", "Definition", "Disable", "Drain", "Enable", "Fire", "Hold", "Open", "Register", "Release",
    "Reload", "Script", "Step", "Storm", "Subscribe", "Unregister", "Unsubscribe", "scripts",
]  # fmt: skip

T = TypeVar("T")
SESSIONS = ("s0", "s1", "s2")
IDS = ("a", "b", "c")
VALUES = ("Bash", "Edit")


@dataclass(frozen=True)
class Definition:
    id: str
    event: str
    match: tuple[str, ...] | None
    priority: int
    enabled: bool = True
    amends: bool = False
    where: str | None = None


@dataclass(frozen=True)
class Open:
    """A session is opened, or resumed; without its token that is refused while it lives."""

    who: str
    has_token: bool = True


@dataclass(frozen=True)
class Close:
    who: str


@dataclass(frozen=True)
class Register:
    who: str
    hooks: tuple[Definition, ...]


@dataclass(frozen=True)
class Unregister:
    who: str
    id: str


@dataclass(frozen=True)
class Enable:
    who: str
    id: str


@dataclass(frozen=True)
class Disable:
    who: str
    id: str


@dataclass(frozen=True)
class Subscribe:
    who: str


@dataclass(frozen=True)
class Unsubscribe:
    who: str


@dataclass(frozen=True)
class Fire:
    """An event; `do` says what each hook's callback does, by its id."""

    who: str
    event: str
    value: str | None
    do: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Hold:
    """A fire of a gate that waits in the callback of one hook until it is let go."""

    who: str
    value: str
    at: str
    do: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Release:
    """The fire that has waited longest goes on."""


@dataclass(frozen=True)
class Storm:
    """A hook's worker dies again and again, some seconds `apart`, and `later` it is called and dies once more."""

    who: str
    id: str
    times: int
    apart: float = 0.0
    later: tuple[float, ...] = ()


@dataclass(frozen=True)
class Reload:
    """The source has a new version, and the admin reloads."""


@dataclass(frozen=True)
class Advance:
    seconds: float


@dataclass(frozen=True)
class Drain:
    """The daemon is told to end: what began goes on, what begins is refused."""


Step = (
    Open | Close | Register | Unregister | Enable | Disable | Subscribe | Unsubscribe | Fire | Hold | Release | Storm
    | Reload | Advance | Drain
)  # fmt: skip
Script = list[Step]

# Each step is a few bytes, taken apart by the choices that they stand for: one draw, of even odds, where a tree of
# strategies takes dozens.  A smaller byte is a simpler choice, so that Hypothesis shrinks scripts all the same.
ACTIONS = {
    GATE: ("pass", "deny", "allow", "mark", "ask", "raise", "halt", "bump", "claim", "garbage", "exit", "hang", "mark"),
    NOTIFY: ("pass", "halt", "raise", "deny", "exit", "garbage", "mark"),
    AMEND: ("pass", "mark", "bump", "mark", "raise", "deny", "exit", "garbage"),
    CLAIM: ("pass", "claim", "raise", "deny", "exit", "claim", "garbage"),
}
ANYONE = ("s0", ADMIN, "s1", "s0", ADMIN, "s2")
PROBED = ((), (0.4, 0.8, 1.1), (1.1,), (1.1, 1.1, 1.1), (1.1, 2.1, 2.1, 2.1))  # seconds before each
STEP = 16  # bytes of one step; what it does not use says nothing


class Choices:
    """Takes bytes apart."""

    def __init__(self, data: bytes, theme: str = GATE) -> None:
        self.left = iter(data)
        self.events = (theme, theme, GATE, theme, theme, NOTIFY, AMEND, CLAIM)  # a script is about one of them, mostly

    def of(self, options: Sequence[T]) -> T:
        return options[next(self.left, 0) % len(options)]

    def do(self, event: str = GATE) -> dict[str, str]:
        return {hook_id: self.of(ACTIONS[event]) for hook_id in IDS}

    def definition(self, hook_id: str) -> Definition:
        event = self.of(self.events)
        match = self.of((None, None, ("Bash",), VALUES))
        priority, enabled = self.of((100, 100, 0, 500)), self.of((True, True, True, False))
        amends = event in (GATE, AMEND) and self.of((False, True, False))
        where = self.of((None, None, None, ">= 1", "< 1")) if event in (GATE, NOTIFY) else None
        return Definition(hook_id, event, match, priority, enabled, amends, where)

    def fire(self) -> Fire:
        event = self.of((GATE, GATE, GATE, NOTIFY, AMEND, CLAIM))
        return Fire(
            self.of(("s0", "s0", "s1", ADMIN, "s2")), event, self.of((*VALUES, "Bash", "Bash", None)), self.do()
        )

    def register(self) -> Register:
        who, ids = self.of(ANYONE), self.of((("a",), ("b",), ("c",), ("b", "a"), ("a", "b", "c"), ("c", "c")))
        hooks = tuple(self.definition(hook_id) for hook_id in ids)
        if self.of((*range(12),)) == 11:
            hooks = (*hooks[:-1], replace(hooks[-1], event="no_such_event"))
        return Register(who, hooks)

    def steps(self) -> tuple[Step, ...]:
        made = self.of(KINDS)(self)
        return made if isinstance(made, tuple) else (made,)

    def absence(self) -> tuple[Step, ...]:
        """A session is away, for longer than it is kept or not, and comes back."""
        who = self.of(SESSIONS)
        return Close(who), Advance(self.of((31.0, 61.0))), Open(who, self.of((True, False))), Subscribe(who)

    def renewal(self) -> tuple[Step, ...]:
        """A hook is disabled and taken away, and another one of its id must not begin disabled."""
        who, hook_id = self.of(ANYONE), self.of(IDS)
        return Disable(who, hook_id), Unregister(who, hook_id), Register(who, (self.definition(hook_id),))


KINDS: tuple[Callable[[Choices], Step | tuple[Step, ...]], ...] = (
    Choices.fire,
    Choices.register,
    Choices.fire,
    lambda one: Hold("s0", one.of(VALUES), one.of(IDS), one.do()),
    lambda one: Release(),
    lambda one: Reload(),
    Choices.fire,
    lambda one: Unregister(one.of(ANYONE), one.of(IDS)),
    lambda one: Disable(one.of(ANYONE), one.of(IDS)),
    lambda one: Enable(one.of(ANYONE), one.of(IDS)),
    lambda one: Close(one.of(SESSIONS)),
    Choices.absence,
    lambda one: Open(one.of(SESSIONS), one.of((True, True, True, False))),
    Choices.renewal,
    lambda one: Storm(
        one.of(("s0", "s1")), one.of(IDS), one.of((6, 5, 7)), one.of((0.0, 0.0, 5.0, 7.0)), one.of(PROBED)
    ),
    lambda one: Advance(one.of((1.1, 0.4, 2.1, 29.0, 31.0, 61.0))),
    lambda one: (Subscribe, Unsubscribe)[one.of((0, 0, 1))](one.of((*SESSIONS, ADMIN))),
    Choices.fire,
    lambda one: Hold(one.of(SESSIONS), one.of(VALUES), one.of(IDS), one.do()),
)


def decoded(steps: list[bytes]) -> Script:
    """Return a script: sessions that look on, some hooks of theirs and of the admin, and whatever follows."""
    script: Script = [Open("s0"), Subscribe("s0"), Open("s1"), Subscribe("s1"), Subscribe(ADMIN)]
    theme = Choices(steps[0][::-1]).of((GATE, GATE, GATE, NOTIFY, AMEND, CLAIM))
    first, second, ending, *rest = (Choices(step, theme) for step in steps)
    script.append(Register(ADMIN, (first.definition("a"), first.definition("b"))))
    script.append(Register("s0", (second.definition("a"), second.definition("c"))))
    script += [step for one in rest for step in one.steps()]
    if ending.of(range(4)) == 3:
        script += [Drain(), ending.fire(), Release(), ending.fire()]
    return script


def scripts(*, max_size: int = 20) -> SearchStrategy[Script]:
    from hypothesis import strategies as st  # here: the simulation decodes steps of its own, and starts sooner

    return st.lists(st.binary(min_size=STEP, max_size=STEP), min_size=6, max_size=max_size).map(decoded)
