"""The options by which a host describes a session and its hooks, with their checks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, TypedDict

from hooklatch.client.protocol.exchange import ServedFunction
from hooklatch.client.protocol.liveness import Liveness

__all__ = ["GATE", "PARENT", "HookItem", "HookOptions", "SessionOptions", "Scope", "validate_ungated", "parse_parent"]

GATE: Final = "pre_tool_use"
PARENT: Final = "HOOKLATCH_PARENT"
Scope: TypeAlias = Literal["session", "global"]


class HookOptions(TypedDict, total=False):
    """The settings of a hook that a session registers. `timeout` is in seconds; a higher `priority` is called first.

    Without an `id` a hook is called `file:function`, made unique in its session. An id that the session already has
    replaces that hook.
    """

    id: str
    match: str | Sequence[str] | Mapping[str, object]
    where: Mapping[str, object]
    priority: int
    timeout: float
    description: str
    enabled: bool
    observe: bool
    optional: bool
    amends: bool
    only_judges: bool
    config: Mapping[str, Any]


HookItem: TypeAlias = (
    "Mapping[str, Any] | tuple[str, ServedFunction] | tuple[str, ServedFunction, HookOptions | Mapping[str, Any]]"
)


class Parent(Protocol):
    """A session as its children see it."""

    @property
    def session_id(self) -> str | None: ...
    @property
    def child_token(self) -> str | None: ...


class SessionOptions(TypedDict, total=False):
    """The options of a session; every key is optional.

    runtime_dir: the daemon's directory; by default HOOKLATCH_RUNTIME_DIR, or the known places in turn.
    daemon_uid: the number of a user whose daemon is accepted too, besides those of this user and of root.
    require: raise if no daemon is reachable, instead of opening a session whose gates deny.
    name: the client's name in the daemon's status.
    cwd: where the session works: its project's hooks and the start of relative paths; by default the current directory.
    host: the kind of agent, e.g. "my-agent".
    parent: the session that started this one, as an object or as its id and child_token; its gates apply here too. By
        default the environment variable HOOKLATCH_PARENT names one (`Session.child_environment`).
    resume_token: the other half of an id that is in use by another process of the same run.
    personality: the name of a table in the configuration that says which plugins fire.
    plugins: the plugins whose hooks fire; none of them if it is empty, all if it is left out.
    dialect: fire, register and answer in another system's names and format, e.g. "ethos".
    require_handlers: events whose fire is a deny if no hook listens.
    ungated: why this host needs no gate on its tools; logged once, instead of a `require_handlers`.
    denial_breaker: this many refusals of pre_tool_use in a row make `run_tool` ask for a halt.
    emits: all events that this host fires, so that hooks on others can be reported.
    hooks: registered with the session, all or none: definitions, or (event, function, options).
    skip_idle: decide fires of events that no hook listens to without the daemon, and send it their counts.
    liveness: the client's timeouts for a silent daemon.
    """

    runtime_dir: str | os.PathLike[str] | None
    daemon_uid: int | None
    require: bool
    name: str
    cwd: str | os.PathLike[str] | None
    host: str | None
    parent: Parent | tuple[str, str] | None
    resume_token: str | None
    personality: str | None
    plugins: Sequence[str] | None
    dialect: str | None
    require_handlers: Sequence[str]
    ungated: str | None
    denial_breaker: int | None
    emits: Sequence[str]
    hooks: Sequence[HookItem]
    skip_idle: bool
    liveness: Liveness


def parse_parent(text: str | None) -> tuple[str, str] | None:
    """Parse the value that `child_environment` wrote.

    Raises:
        ValueError: the text is something else.
    """
    if not text:
        return None
    token, _, session_id = text.partition(" ")
    if not session_id:
        raise ValueError(
            f"{PARENT} is a child_token, a space and a session's id, not {text!r}; unset it, or pass parent="
        )
    return session_id, token


def validate_ungated(options: SessionOptions) -> str | None:
    reason = options.get("ungated")
    if reason is None:
        return None
    if not reason.strip():
        raise ValueError("ungated is empty; say why this host needs no gate")
    if GATE in options.get("require_handlers", ()):
        raise ValueError(f"require_handlers names {GATE}, and ungated says that it needs no hook; choose one")
    return reason
