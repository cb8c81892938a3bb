"""The decision on a fire, from the daemon's response or, without one, made by the client.  Does not know connections.

the daemon answered        read_fired
no daemon, lost, silent    make_local_decision("no_daemon")  a gate: deny   any other known event: pass, with a warning
an error, or unreadable    make_local_decision("protocol")   an event that is not in the catalogue counts as a gate
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypedDict

import msgspec

from hooklatch.client.protocol.decision_table import MAX_INTEGER, DecisionTable, format_decision_table
from hooklatch.client.protocol.json_values import decode_response
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.messages import RETRYABLE, Cause, ChainHead, DecisionVerdict
from hooklatch.core.refusal_texts import LOGGED_LOCALLY, add_instead, tell_model
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, UnreadableAnswerError

__all__ = [
    "Accepted", "AnnouncedDecision", "AnsweredDecision", "Decision", "LocalDecision", "HookOutcome",
    "RefusedError", "TABLE", "decide_locally", "make_local_decision", "read_decision", "read_fired",
    "refuse_locally", "make_skipped_decision",
]  # fmt: skip

TABLE: Final = DecisionTable(msgspec.json.decode(format_decision_table()))
Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]


class RefusedError(HooklatchError):
    """The decision does not allow the action. `reason`, `cause` and `hook` are the decision's."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision
        self.reason = decision.reason
        self.cause = decision.cause
        self.hook = decision.hook

    def __str__(self) -> str:
        return self.decision.explanation


class HookOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One hook's part in a decision. `duration_ms` is in milliseconds; `name` is the hook's full name, if its layer
    and its id are ambiguous. `began_ms` is when it was called, from the begin of the fire. `unneeded` says
    that a hook before it, called at the same time, had already decided. `warned` says that it added to the warnings.
    """

    layer: str = ""
    hook: str = ""
    outcome: str = ""
    verdict: str | None = None
    cause: str
    message: str = ""
    patch: dict[str, Any] | None = None
    stdout: str = ""
    stderr: str = ""
    exit_code: Integer | None = None
    truncated: bool = False
    duration_ms: float = 0.0
    began_ms: float = 0.0
    reinvoked: bool = False
    observed: bool = False
    command: str = ""
    last: bool = False
    name: str = ""
    unneeded: bool = False
    warned: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer to a fire. `duration_ms` is in milliseconds; `patch` maps payload keys to whole new values.

    `layer` and `hook` are the hook that decided, and `name` its full name, if these are ambiguous.
    `cause` is "policy" if a hook decided, else the failure for which it is a refusal; `revision` is None if the client
    decided by itself. In a session with a dialect `rendered` is the answer in that dialect's format, and `followed_by`
    holds the decisions on the other events that the native one maps to. A decision that the client made has nothing
    rendered: if it is not `allowed`, treat it as that system's refusal. `record` is the head of the daemon's decision
    record. A head that is kept proves any later change of the entries before it. `instead` is the shell command that a
    hook names in place of what it refuses, or asks about: the model's next step.
    """

    decision_id: str
    event: str
    verdict: DecisionVerdict
    cause: str | None = None
    reason: str | None = None
    layer: str | None = None
    hook: str | None = None
    retryable: bool = False
    patch: dict[str, Any] | None = None
    payload_digest: str | None = None
    inject: list[dict[str, Any]] = []
    append: str | None = None
    resume: str | None = None
    value: Any = None
    context: dict[str, Any] = {}
    revision: Integer | None = None
    duration_ms: float = 0.0
    outcomes: list[HookOutcome] = []
    warnings: list[str] = []
    name: str = ""
    rendered: Any = None
    followed_by: list[Decision] = []
    instead: str | None = None
    record: ChainHead | None = None

    @property
    def allowed(self) -> bool:
        """Return whether the action may continue. False for deny and halt, and for ask, which needs approval first.

        A pass is the absence of an opinion, not an approval: a host must not skip its own permission dialog for it.
        """
        return self.verdict in ("pass", "allow", "claim")

    @property
    def needs_asking(self) -> bool:
        """Return whether the person at the host has to approve it."""
        return self.verdict == "ask"

    @property
    def is_refusal(self) -> bool:
        """Return whether it must not continue, even if a person approves."""
        return self.verdict in ("deny", "halt")

    @property
    def is_local(self) -> bool:
        """Return whether the client decided by itself, without an answer of the daemon or a person's approval."""
        return isinstance(self, LocalDecision)

    @property
    def explanation(self) -> str:
        """Return the verdict in one line: who decided and why, and for a failure how to find out more."""
        who = f" by {self.hook}" if self.hook else ""
        what = {"ask": "approval is needed", "halt": "the run was halted"}.get(self.verdict, "refused")
        why = self.reason or (f"cause {self.cause}" if self.cause else "")
        is_to_follow = not self.is_local and self.cause not in (None, "policy")
        follow = f" (hooklatch log --decision {self.decision_id})" if is_to_follow else ""
        return f"{self.event} {what}{who}" + (f": {why}" if why else "") + follow

    @property
    def for_model(self) -> str:
        """Return the text for the model: a hook's own reason, or what a failure means, and what to do then."""
        if self.cause not in (None, "policy"):
            return tell_model(self)
        return add_instead(self.reason or self.explanation, self.instead)

    def raise_for_refusal(self) -> None:
        """Do nothing if it is allowed.

        Raises:
            RefusedError: it is a deny, a halt, or an ask; a host that can ask looks at `needs_asking` first.
        """
        if not self.allowed:
            raise RefusedError(self)

    def as_tool_result(self, tool_use_id: str) -> dict[str, Any]:
        """Return the error block that the Messages API needs for a tool call that was refused.

        Raises:
            ValueError: the call is allowed, so its real result belongs there.
        """
        if self.allowed:
            raise ValueError(f"the decision is {self.verdict!r}: run the tool and send its own result")
        return {
            "type": "tool_result",
            "tool_use_id": tool_use_id,
            "is_error": True,
            "content": self.for_model,
        }


def check_combination(decision: Decision) -> None:
    if problem := TABLE.misfit(decision.event, decision.verdict, decision.cause, decision.__getattribute__):
        raise ValueError(problem)


if TYPE_CHECKING:
    AnsweredDecision: TypeAlias = Decision
else:
    # A decision from a response: the keys that the daemon always writes have no default, so each has to be present.
    AnsweredDecision = msgspec.defstruct(
        "AnsweredDecision",
        [
            *((key, Decision.__annotations__[key]) for key in TABLE.shapes["decision"]["always"]),
            ("followed_by", "list[AnsweredDecision]", []),
        ],
        bases=(Decision,),
        namespace={"__post_init__": check_combination},
        module=__name__,
        frozen=True,
        kw_only=True,
    )


class LocalDecision(Decision, frozen=True, kw_only=True):
    """A decision that the client made in place of the daemon."""

    decision_id: str = msgspec.field(default_factory=lambda: f"local-{os.urandom(8).hex()}")


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a fire that waits for no decision: `accepted` is False if its hooks will not be run."""

    accepted: bool
    decision_id: str | None = None
    warnings: list[str] = []


def read_decision(result: msgspec.Raw, event: str, *, is_native: bool = False) -> Decision:
    """Read the answer to a fire of `event`; the decision on a native one has that event's name in the catalogue.

    Raises:
        UnreadableAnswerError: it is not a decision, or one on another event.
    """
    decision = decode_response(result, AnsweredDecision, "decision")
    if decision.event != event and not is_native:
        raise UnreadableAnswerError(f"the answer decides on {decision.event!r}, not on {event!r}")
    return decision


def read_fired(result: msgspec.Raw, event: str, *, wait: bool, is_native: bool = False) -> Decision | Accepted:
    """Read the answer to a fire, whether it waits for a decision or not.

    Raises:
        UnreadableAnswerError: it is neither a decision nor an acceptance.
    """
    if not wait:
        return decode_response(result, Accepted, "acceptance")
    return read_decision(result, event, is_native=is_native)


def make_skipped_decision(event: str, number: int, revision: int) -> Decision:
    """Return the daemon's decision on an event that, by its announcement, no hook listens to."""
    return Decision(decision_id=f"skipped-{number}", event=event, verdict="pass", revision=revision)


def decide_locally(event: str, error: HooklatchError, *, wait: bool) -> Decision | Accepted:
    """Decide a fire that failed with `error`."""
    cause = find_error_cause(error)
    if wait:
        return make_local_decision(event, cause, str(error))
    return Accepted(accepted=False, warnings=[f"{cause}: {error}"])


def find_error_cause(error: HooklatchError) -> Cause:
    if isinstance(error, DaemonUnreachableError):
        return "no_daemon"
    # The daemon works, but has no room for one more request; trying again later helps.
    is_overload = isinstance(error, RequestFailedError) and error.name == "overload"
    return "overload" if is_overload else "protocol"


def make_local_decision(event: str, cause: Cause, message: str) -> Decision:
    """Decide in place of the daemon: deny a gate, pass another event with a warning."""
    spec = Catalogue.standard().get(event)
    is_closed = spec is None or spec.fails_closed
    text = f"{LOGGED_LOCALLY.get(cause, cause)}: {message}"
    return LocalDecision(
        event=event,
        verdict="deny" if is_closed else "pass",
        cause=cause if is_closed else None,
        reason=text if is_closed else None,
        retryable=is_closed and cause in RETRYABLE,
        warnings=[] if is_closed else [f"{cause}: {message}"],
    )


def refuse_locally(event: str, cause: Cause, reason: str, because_of: Decision) -> Decision:
    """Refuse an action that hooks left open: no person approved it, or their answers never agreed on one input."""
    return LocalDecision(
        event=event, verdict="deny", cause=cause, reason=reason, layer=because_of.layer, hook=because_of.hook,
        instead=because_of.instead if cause == "policy" else None,
    )  # fmt: skip


class AnnouncedDecision(TypedDict):
    """A decision, and facts of its fire; null for those that the fire does not have. `subject` is what was judged."""

    topic: Literal["decisions"]
    at: str
    session_id: str | None
    host: str | None
    tool: str | None
    subject: str
    decision: Decision
