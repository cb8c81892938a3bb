"""The state of a session across its connections: its identity, its hooks, its subscriptions, and refusals in a row.

The params of `hello` are made of it, first and again after a lost connection. A session that the daemon still has is
resumed. A session that it has forgotten is set up again, with its hooks active before its first fire. Does not know
connections.

Refusals of pre_tool_use by hooks count for every cause, since a guard that crashes refuses too. A refusal by the client
itself (no daemon), an ask, and a person's no neither count nor reset the count. An allowed call resets it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.decisions import Decision
from hooklatch.client.protocol.exchange import SkippedCounts
from hooklatch.client.protocol.hooks import SessionHooks
from hooklatch.client.protocol.json_values import decode_response
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.protocol.options import PARENT, SessionOptions, parse_parent, validate_ungated
from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.core.protocol import MAX_IN_FLIGHT
from hooklatch.errors import (
    DaemonUnreachableError,
    HooklatchError,
    InvalidPayloadError,
    RequestFailedError,
    UnreadableAnswerError,
)
from hooklatch.version import PROTOCOL

__all__ = ["SessionState", "SkippingConnection", "Welcome"]


class DenialBreaker:
    """The count of refusals in a row; open from `limit` on, never without a limit."""

    def __init__(self, limit: int | None) -> None:
        if limit is not None and (isinstance(limit, bool) or limit < 1):
            raise ValueError(f"denial_breaker is {limit!r}; it must be a number of refusals in a row, at least 1")
        self.refusals = 0
        self._limit = limit

    @property
    def is_open(self) -> bool:
        """Return whether the run should halt."""
        return self._limit is not None and self.refusals >= self._limit

    @property
    def reason(self) -> str:
        return f"{self.refusals} refusals in a row"

    def note(self, decision: Decision) -> None:
        if decision.event != "pre_tool_use":
            return
        if decision.allowed:
            self.reset()
        elif decision.is_refusal and not decision.is_local:
            self.refusals += 1

    def reset(self) -> None:
        """Note that a tool ran."""
        self.refusals = 0


RESERVED: Final = 4  # of the requests that may be in flight: a ping must never wait behind fires


class SessionLimits(msgspec.Struct, frozen=True):
    payload_bytes: int = MAX_PAYLOAD
    in_flight: int = MAX_IN_FLIGHT


class Welcome(msgspec.Struct, frozen=True):
    """The daemon's answer to `hello`. `budgets` says for each event how many seconds a fire may take now."""

    protocol: int
    session_id: str | None = None
    resume_token: str | None = None
    child_token: str | None = None
    revision: int | None = None
    digest: str | None = None
    limits: SessionLimits = SessionLimits()
    budgets: dict[str, float] = {}


class SkippingConnection(Protocol):
    """A connection on which the daemon may permit to skip events."""

    def may_skip(self, event: str) -> bool: ...

    def skip(self, event: str) -> Decision | None: ...


class SessionState:
    """One session, from its first hello to its end."""

    def __init__(self, session_id: str | None, options: SessionOptions) -> None:
        self.session_id = session_id
        self.resume_token = options.get("resume_token")
        self.revision: int | None = None
        self.welcome = Welcome(PROTOCOL)
        self.topics: set[str] = {"idle"} if options.get("skip_idle") and not options.get("dialect") else set()
        self.skipping: SkippingConnection | None = None  # the present connection
        self.skipped = SkippedCounts()
        self.is_closed = False  # in this process
        self.breaker = DenialBreaker(options.get("denial_breaker"))
        self.ungated = validate_ungated(options)
        self.hooks = SessionHooks()
        self.is_copy = False  # in a forked process: the session belongs to the parent process, and ends with it
        self._options = options.copy()
        list_plugin_names(options.get("plugins"))
        if unknown := options.keys() - SessionOptions.__annotations__.keys():
            raise TypeError(
                f"a session has no option {min(unknown)!r}; see hooklatch.client.protocol.options.SessionOptions"
            )
        self._parent = options["parent"] if "parent" in options else parse_parent(os.environ.get(PARENT))
        self._cwd = self._began = os.path.abspath(options.get("cwd") or os.getcwd())
        self.hooks.keep(self.hooks.define(options.get("hooks", ())))

    @property
    def child_token(self) -> str | None:
        """Return the token that a session started by this one needs; None until a daemon has given it."""
        return self.welcome.child_token

    @property
    def liveness(self) -> Liveness:
        return self._options.get("liveness", Liveness())

    @property
    def daemon_uid(self) -> int | None:
        """Return the user whose daemon is taken beside one's own and root's."""
        return self._options.get("daemon_uid")

    @property
    def dialect(self) -> str | None:
        """Return the dialect that the session speaks; None for the catalogue's own names."""
        return self._options.get("dialect")

    def emits(self, event: str) -> bool:
        """Return whether the host said that it fires that event itself."""
        return event in self._options.get("emits", ())

    def must_raise(self, error: HooklatchError) -> bool:
        """Return whether a failure of the first attempt goes to the caller, because waiting would not help."""
        if self.is_copy:
            return False
        is_refusal = isinstance(error, RequestFailedError) and error.name not in ("draining", "overload")
        return is_refusal or isinstance(error, InvalidPayloadError) or self._options.get("require", False)

    def hello(self, version: str) -> dict[str, object]:
        """Return the params of `hello`."""
        options = self._options
        parent_id, parent_token = self._parent_proof()
        session: dict[str, object] = {
            "id": self.session_id,
            "resume_token": self.resume_token,
            "parent_session_id": parent_id,
            "parent_token": parent_token,
            "cwd": self._cwd,
            "began_in": self._began if self._began != self._cwd else None,
            "host": options.get("host"),
            "personality": options.get("personality"),
            "require_handlers": list(options.get("require_handlers", ())),
            "ungated": options.get("ungated"),
            "hooks": [definition.wire for definition in self.hooks],
        }
        named = {key: value for key, value in session.items() if value not in (None, [])}
        client = {"name": options.get("name", "hooklatch-python"), "version": version}
        params: dict[str, object] = {"protocol": PROTOCOL, "client": client, "session": named}
        if (plugins := list_plugin_names(options.get("plugins"))) is not None:
            params["session"] = {**named, "plugins": plugins}  # an empty list allows none
        if self.dialect is not None:
            params["dialect"] = self.dialect
        if emits := options.get("emits"):
            params["emits"] = list(emits)
        return params

    def _parent_proof(self) -> tuple[str | None, str | None]:
        parent = self._parent
        if parent is None or isinstance(parent, tuple):
            return parent or (None, None)
        if parent.session_id is None or parent.child_token is None:
            raise DaemonUnreachableError("no daemon has welcomed the session that started this one")
        return parent.session_id, parent.child_token

    def take_welcome(self, result: msgspec.Raw) -> None:
        """Take the response to `hello`.

        Raises:
            UnreadableAnswerError: it is not a welcome, or is for another version of the protocol.
        """
        welcome = decode_response(result, Welcome, "welcome")
        if welcome.protocol != PROTOCOL:
            raise UnreadableAnswerError(f"the daemon speaks protocol {welcome.protocol}, this client {PROTOCOL}")
        self.welcome = welcome
        self.session_id = welcome.session_id or self.session_id
        self.resume_token = welcome.resume_token or self.resume_token

    def heard_of(self, revision: int | None) -> Announcement | None:
        """Take the revision that is active after a `hello`; return what tells listeners that they missed some."""
        last_heard, self.revision = self.revision, revision
        if last_heard in (None, revision):
            return None
        if revision is not None:
            self.revision = max(last_heard, revision)  # an announcement may have overtaken the answer
        return Announcement(topic="registry", resync=self.revision)

    @property
    def in_flight(self) -> int:
        """Return how many requests may wait at a time, so that a ping still gets through."""
        return max(1, self.welcome.limits.in_flight - RESERVED)

    def changed(
        self,
        cwd: str | os.PathLike[str] | None = None,
        personality: str | msgspec.UnsetType | None = msgspec.UNSET,
        plugins: Sequence[str] | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> dict[str, object]:
        """Take what a session may change while it lives; return the params of `session.update`."""
        params: dict[str, object] = {}
        if cwd is not None:
            params["cwd"] = self._cwd = os.path.abspath(cwd)
        if personality is not msgspec.UNSET:
            params["personality"] = self._options["personality"] = personality
        if plugins is not msgspec.UNSET:
            params["plugins"] = self._options["plugins"] = list_plugin_names(plugins)
        return params

    @property
    def changeable(self) -> dict[str, Any]:
        """Return what `changed` may change, as it is now."""
        return {
            "cwd": self._cwd,
            "personality": self._options.get("personality"),
            "plugins": self._options.get("plugins"),
        }

    def without_hooks(self) -> SessionState:
        """Return the state of another process of the same run: the hooks stay with the process of their functions."""
        options = self._options.copy()
        options["hooks"], options["cwd"], options["parent"] = (), self._cwd, self._parent
        copy = SessionState(self.session_id, options)
        copy._began = self._began
        copy.is_copy = True
        copy.resume_token, copy.revision, copy.topics = self.resume_token, self.revision, set(self.topics)
        return copy


def list_plugin_names(plugins: Sequence[str] | None) -> list[str] | None:
    """Return the names of plugins as a list.

    Raises:
        TypeError: it is a text, whose letters would be the names of none, so that no plugin's guards fire.
    """
    if isinstance(plugins, str):
        raise TypeError(f"plugins is a list of names, not {plugins!r}")
    return list(plugins) if plugins is not None else None
