"""What a session knows across its connections: who it is, which hooks it has, what it has subscribed to.

Gives the params of `hello`, first and again after a lost connection: a session that lives on is resumed, one that
the daemon has forgotten is set up as it was, and its hooks are in force before its first fire. Knows no connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, TypedDict, cast

import msgspec

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.answers import read_answer
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.session.breaker import DenialBreaker
from hooklatch.client.session.served import ServedFunction, is_async
from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.core.protocol import MAX_IN_FLIGHT, PROTOCOL
from hooklatch.errors import (
    DaemonUnreachableError,
    HooklatchError,
    InvalidPayloadError,
    RequestFailedError,
    UnreadableAnswerError,
)

__all__ = [
    "Definition",
    "HookItem",
    "HookOptions",
    "SessionState",
    "PARENT",
    "Options",
    "Scope",
    "Welcome",
    "checked_scope",
    "refuse_async",
    "target_of",
]

RESERVED: Final = 4  # of the requests that may be in flight: a ping must never wait behind fires
GATE: Final = "pre_tool_use"
PARENT: Final = "HOOKLATCH_PARENT"
Scope: TypeAlias = Literal["session", "global"]


class HookOptions(TypedDict, total=False):
    """The settings of a hook that a session registers. `timeout` is in seconds; a higher `priority` is asked first.

    Without an `id` a hook is called `file:function`, made unique in its session. An id that the session has already
    replaces that hook.
    """

    id: str
    match: str | Sequence[str] | Mapping[str, object]
    priority: int
    timeout: float
    description: str
    enabled: bool
    observe: bool
    optional: bool
    amends: bool
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


class Options(TypedDict, total=False):
    """How a session is opened; every key may be left out.

    runtime_dir: the daemon's folder; else HOOKLATCH_RUNTIME_DIR, else the known places in turn.
    require: raise where no daemon is reachable, instead of opening a session whose gates deny.
    name: what the client is called in the daemon's status.
    cwd: where the session works: its project's hooks and the start of relative paths; else the current folder.
    host: the kind of agent, e.g. "my-agent".
    parent: the session that started this one, as an object or as its id and child_token; its gates hold here too. Where
        it is left out, the environment variable HOOKLATCH_PARENT names one (`Session.child_environment`).
    resume_token: the other half of an id that is in use by another process of the same run.
    personality: the name of a table in the configuration that says which plugins fire.
    plugins: the plugins whose hooks fire; none of them where it is empty, all where it is left out.
    dialect: fire, register and answer in another system's names and words, e.g. "ethos".
    require_handlers: events whose fire is a deny where no hook listens.
    ungated: why this host needs no gate on its tools; logged once, instead of a `require_handlers`.
    denial_breaker: so many refusals of pre_tool_use in a row make `run_tool` ask for a halt.
    emits: the events that this host ever fires, so that hooks on others can be reported.
    hooks: registered with the session, all or none: definitions, or (event, function, options).
    liveness: how patient the client is with a silent daemon.
    """

    runtime_dir: str | os.PathLike[str] | None
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
    liveness: Liveness


class Limits(msgspec.Struct, frozen=True):
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
    limits: Limits = Limits()
    budgets: dict[str, float] = {}


class Definition(msgspec.Struct, frozen=True):
    """A hook as it is sent, and the function where this client serves it."""

    wire: dict[str, object]
    function: ServedFunction | None = None

    @property
    def id(self) -> str | None:
        return cast("str | None", self.wire.get("id"))


class SessionState:
    """One session, from its first hello to its end."""

    def __init__(self, session_id: str | None, options: Options) -> None:
        self.session_id = session_id
        self.resume_token = options.get("resume_token")
        self.revision: int | None = None
        self.welcome = Welcome(PROTOCOL)
        self.topics: set[str] = set()
        self.is_closed = False  # in this process
        self.breaker = DenialBreaker(options.get("denial_breaker"))
        self._ungated = checked_ungated(options)
        self._definitions: list[Definition] = []
        self._is_copy = False
        self._options = options.copy()
        if unknown := options.keys() - Options.__annotations__.keys():
            raise TypeError(
                f"a session has no option {min(unknown)!r}; see hooklatch.client.session.session_state.Options"
            )
        self._parent = options["parent"] if "parent" in options else parent_of(os.environ.get(PARENT))
        self._cwd = self._began = os.path.abspath(options.get("cwd") or os.getcwd())
        self.keep(self.define(options.get("hooks", ())))

    @property
    def is_copy(self) -> bool:
        """Whether it is that of a forked process: the session is its parent's, and ends with that one."""
        return self._is_copy

    @property
    def child_token(self) -> str | None:
        """What a session shows that this one starts; None until a daemon has told it."""
        return self.welcome.child_token

    @property
    def liveness(self) -> Liveness:
        return self._options.get("liveness", Liveness())

    @property
    def dialect(self) -> str | None:
        """The dialect that the session speaks; None for the catalogue's own names."""
        return self._options.get("dialect")

    def emits(self, event: str) -> bool:
        """Whether the host said that it fires that event itself."""
        return event in self._options.get("emits", ())

    def take_ungated(self) -> str | None:
        """Return why the host needs no gate, once."""
        reason, self._ungated = self._ungated, None
        return reason

    @property
    def definitions(self) -> Sequence[Definition]:
        """The session's hooks, in the order in which they were registered."""
        return self._definitions

    def must_raise(self, error: HooklatchError) -> bool:
        """Whether the first attempt's failure is the caller's affair, and not one that time may heal."""
        if self._is_copy:
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
            "hooks": [definition.wire for definition in self._definitions],
        }
        named = {key: value for key, value in session.items() if value not in (None, [])}
        params: dict[str, object] = {
            "protocol": PROTOCOL,
            "client": {"name": options.get("name", "hooklatch-python"), "version": version},
            "session": named,
        }
        if (plugins := options.get("plugins")) is not None:
            params["session"] = {**named, "plugins": list(plugins)}  # an empty list allows none
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

    def welcomed(self, result: msgspec.Raw) -> None:
        """Take the answer to `hello`.

        Raises:
            UnreadableAnswerError: it is none, or of another version of the protocol.
        """
        welcome = read_answer(result, Welcome, "welcome")
        if welcome.protocol != PROTOCOL:
            raise UnreadableAnswerError(f"the daemon speaks protocol {welcome.protocol}, this client {PROTOCOL}")
        self.welcome = welcome
        self.session_id = welcome.session_id or self.session_id
        self.resume_token = welcome.resume_token or self.resume_token

    def heard_of(self, revision: int | None) -> Announcement | None:
        """Take the revision that is in force after a `hello`; give what tells listeners that they missed some."""
        last_heard, self.revision = self.revision, revision
        if last_heard in (None, revision):
            return None
        if revision is not None:
            self.revision = max(last_heard, revision)  # an announcement may have overtaken the answer
        return Announcement(topic="registry", resync=self.revision)

    @property
    def in_flight(self) -> int:
        """How many requests may wait at a time, so that a ping still gets through."""
        return max(1, self.welcome.limits.in_flight - RESERVED)

    def changed(
        self,
        cwd: str | os.PathLike[str] | None = None,
        personality: str | None = None,
        plugins: Sequence[str] | None = None,
    ) -> dict[str, object]:
        """Take what a session may change while it lives; give the params of `session.update`."""
        params: dict[str, object] = {}
        if cwd is not None:
            params["cwd"] = self._cwd = os.path.abspath(cwd)
        if personality is not None:
            params["personality"] = self._options["personality"] = personality
        if plugins is not None:
            params["plugins"] = self._options["plugins"] = list(plugins)
        return params

    def define(self, items: Iterable[HookItem]) -> list[Definition]:
        """Read hooks as users write them, each with an id of its own.

        Raises:
            TypeError: one is neither a definition nor (event, function) nor (event, function, options).
            ValueError: two of them have one id.
        """
        taken = {definition.id for definition in self._definitions}
        definitions: list[Definition] = []
        for item in items:
            definition = define(item, taken)
            if definition.id and any(one.id == definition.id for one in definitions):
                raise ValueError(f"two hooks of one list have the id {definition.id!r}; give one of them another")
            definitions.append(definition)
            taken.add(definition.id)
        return definitions

    def keep(self, definitions: Iterable[Definition]) -> list[Definition]:
        """Remember hooks; give the earlier ones that they replace, in their places, because of the same id."""
        replaced: list[Definition] = []
        for new in definitions:
            places = [index for index, old in enumerate(self._definitions) if new.id and old.id == new.id]
            if places:
                replaced.append(self._definitions[places[0]])
                self._definitions[places[0]] = new
            else:
                self._definitions.append(new)
        return replaced

    def withdraw(self, definitions: Sequence[Definition], replaced: Iterable[Definition]) -> None:
        """Take `keep` back: the daemon refused them."""
        self._definitions = [one for one in self._definitions if all(one is not other for other in definitions)]
        self.keep(replaced)

    def forget(self, hook_id: str) -> None:
        """Forget the hook of that id, if there is one."""
        self._definitions = [definition for definition in self._definitions if definition.id != hook_id]

    def switch(self, hook_id: str, *, is_enabled: bool) -> None:
        """Remember that a hook of this session was enabled or disabled."""
        for definition in self._definitions:
            if definition.id == hook_id:
                definition.wire["enabled"] = is_enabled

    def served(self, hook_id: str) -> Definition | None:
        """Return the hook of that id if this client serves it."""
        return next((one for one in self._definitions if one.id == hook_id and one.function is not None), None)

    def without_hooks(self) -> SessionState:
        """Return the memory of another process of the same run: the hooks stay where their functions are."""
        options = self._options.copy()
        options["hooks"], options["cwd"], options["parent"] = (), self._cwd, self._parent
        copy = SessionState(self.session_id, options)
        copy._began = self._began
        copy._is_copy, copy._ungated = True, None  # said by the parent
        copy.resume_token, copy.revision, copy.topics = self.resume_token, self.revision, set(self.topics)
        return copy


def parent_of(text: str | None) -> tuple[str, str] | None:
    """Read what `child_environment` wrote.

    Raises:
        ValueError: it is something else.
    """
    if not text:
        return None
    token, _, session_id = text.partition(" ")
    if not session_id:
        raise ValueError(
            f"{PARENT} is a child_token, a space and a session's id, not {text!r}; unset it, or pass parent="
        )
    return session_id, token


def target_of(event: str, function: ServedFunction | None, run: str | None, options: HookOptions) -> HookItem:
    """Return one hook as `register` is told it.

    Raises:
        TypeError: it has no target, or two.
    """
    if (function is None) == (run is None):
        raise TypeError("register takes a function that this process serves, or run='file.py:name', and not both")
    if function is not None:
        return (event, function, options)
    return {"event": event, "run": run, **options}


def checked_scope(scope: Scope, definitions: Sequence[Definition]) -> Sequence[Definition]:
    """Return the hooks that go with the session: global ones stay with the daemon.

    Raises:
        ValueError: a global hook has its function here, and would be gone with this process.
    """
    if scope == "session":
        return definitions
    if any(definition.function is not None for definition in definitions):
        raise ValueError('a served hook goes with its session; write run="file.py:name" for a global one')
    return ()


def refuse_async(definitions: Sequence[Definition]) -> None:
    """Refuse hooks that threads cannot run.

    Raises:
        TypeError: one is an async function.
    """
    for definition in definitions:
        if definition.function is not None and is_async(definition.function):
            raise TypeError(f"{definition.id} is async, and nothing here runs it; serve it under hooklatch.connect()")


def checked_ungated(options: Options) -> str | None:
    reason = options.get("ungated")
    if reason is None:
        return None
    if not reason.strip():
        raise ValueError("ungated is empty; say why this host needs no gate")
    if GATE in options.get("require_handlers", ()):
        raise ValueError(f"require_handlers names {GATE}, and ungated says that it needs no hook; choose one")
    return reason


def define(item: HookItem, taken: set[str | None]) -> Definition:
    if isinstance(item, Mapping):
        wire, function = dict(item), None
        run = wire.get("run")
        name = name_of_target(run) if isinstance(run, str) else None
    elif isinstance(item, tuple) and 2 <= len(item) <= 3 and callable(item[1]):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not type-check
        function = item[1]
        wire = {"event": item[0], "served": True, **(item[2] if len(item) == 3 else {})}
        name = name_of_function(function)
    else:
        raise TypeError(f"a hook is a definition or (event, function, options), not {item!r}")
    if "id" not in wire and name is not None:
        wire["id"] = unique(name, str(wire.get("event")), taken)
    return Definition(cast("dict[str, object]", wire), function)


def name_of_target(run: str) -> str:
    place, _, function = run.rpartition(":")
    return f"{os.path.splitext(os.path.basename(place))[0]}:{function}"


def name_of_function(function: ServedFunction) -> str:
    module = str(getattr(function, "__module__", None) or "client").rpartition(".")[2]
    return f"{module}:{getattr(function, '__name__', type(function).__name__)}"


def unique(name: str, event: str, taken: set[str | None]) -> str:
    # A name that two hooks share would make the second replace the first: a guard would vanish in silence.
    candidates = [name, f"{name}@{event}"]
    while candidates[-1] in taken:
        candidates.append(f"{name}@{event}-{len(candidates)}")
    return candidates[0] if name not in taken else candidates[-1]
