"""The hooks of one session, as hosts write them and as they are sent.  Knows ids and functions; not the daemon."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import msgspec

from hooklatch.client.protocol.exchange import ServedFunction, is_async
from hooklatch.client.protocol.options import HookItem, HookOptions, Scope

__all__ = ["ClientHook", "SessionHooks", "validate_scope", "refuse_async", "describe_target"]


class ClientHook(msgspec.Struct, frozen=True):
    """A hook as it is sent, and its function if this client serves it."""

    wire: dict[str, object]
    function: ServedFunction | None = None

    @property
    def id(self) -> str | None:
        return cast("str | None", self.wire.get("id"))


class SessionHooks:
    """The hooks that a session has, in the order in which they were registered."""

    def __init__(self) -> None:
        self._known: list[ClientHook] = []

    def __iter__(self) -> Iterator[ClientHook]:
        return iter(self._known)

    def define(self, items: Iterable[HookItem]) -> list[ClientHook]:
        """Read hooks as hosts write them, each with its own id.

        Raises:
            TypeError: a hook is neither a definition nor (event, function) nor (event, function, options).
            ValueError: two hooks have the same id.
        """
        taken = {definition.id for definition in self._known}
        definitions: list[ClientHook] = []
        for item in items:
            definition = read_item(item, taken)
            if definition.id and any(earlier.id == definition.id for earlier in definitions):
                raise ValueError(f"two hooks of one list have the id {definition.id!r}; give one of them another")
            definitions.append(definition)
            taken.add(definition.id)
        return definitions

    def keep(self, definitions: Iterable[ClientHook]) -> list[ClientHook]:
        """Remember hooks; return the earlier ones of the same ids, which they replace."""
        replaced: list[ClientHook] = []
        for new in definitions:
            places = [index for index, old in enumerate(self._known) if new.id and old.id == new.id]
            if places:
                replaced.append(self._known[places[0]])
                self._known[places[0]] = new
            else:
                self._known.append(new)
        return replaced

    def withdraw(self, definitions: Sequence[ClientHook], replaced: Iterable[ClientHook]) -> None:
        """Undo `keep`: the daemon refused them."""
        self._known = [known for known in self._known if all(known is not refused for refused in definitions)]
        self.keep(replaced)

    def forget(self, hook_id: str) -> None:
        """Forget the hook of that id, if there is one."""
        self._known = [definition for definition in self._known if definition.id != hook_id]

    def switch(self, hook_id: str, *, is_enabled: bool) -> None:
        """Remember that a hook of this session was enabled or disabled."""
        for definition in self._known:
            if definition.id == hook_id:
                definition.wire["enabled"] = is_enabled

    def served(self, hook_id: str) -> ClientHook | None:
        """Return the hook of that id if this client serves it."""
        return next((known for known in self._known if known.id == hook_id and known.function is not None), None)


def describe_target(event: str, function: ServedFunction | None, run: str | None, options: HookOptions) -> HookItem:
    """Return one hook's target as the protocol's `register` takes it.

    Raises:
        TypeError: it has no target, or two.
    """
    if (function is None) == (run is None):
        raise TypeError("register takes a function that this process serves, or run='file.py:name', and not both")
    if function is not None:
        return (event, function, options)
    return {"event": event, "run": run, **options}


def validate_scope(scope: Scope, definitions: Sequence[ClientHook]) -> Sequence[ClientHook]:
    """Return the hooks that end with the session: global ones stay with the daemon.

    Raises:
        ValueError: a global hook has its function here, and would be gone with this process.
    """
    if scope == "session":
        return definitions
    if any(definition.function is not None for definition in definitions):
        raise ValueError('a served hook goes with its session; write run="file.py:name" for a global one')
    return ()


def refuse_async(definitions: Iterable[ClientHook]) -> None:
    """Refuse hooks that threads cannot run.

    Raises:
        TypeError: one is an async function.
    """
    for definition in definitions:
        if definition.function is not None and is_async(definition.function):
            raise TypeError(f"{definition.id} is async, and nothing here runs it; serve it under hooklatch.connect()")


def read_item(item: HookItem, taken: set[str | None]) -> ClientHook:
    if isinstance(item, Mapping):
        wire, function = dict(item), None
        run = wire.get("run")
        name = derive_target_name(run) if isinstance(run, str) else None
    elif isinstance(item, tuple) and 2 <= len(item) <= 3 and callable(item[1]):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not type-check
        function = item[1]
        wire = {"event": item[0], "served": True, **(item[2] if len(item) == 3 else {})}
        name = derive_function_name(function)
    else:
        raise TypeError(f"a hook is a definition or (event, function, options), not {item!r}")
    if "id" not in wire and name is not None:
        wire["id"] = make_unique_name(name, str(wire.get("event")), taken)
    return ClientHook(cast("dict[str, object]", wire), function)


def derive_target_name(run: str) -> str:
    place, _, function = run.rpartition(":")
    return f"{os.path.splitext(os.path.basename(place))[0]}:{function}"


def derive_function_name(function: ServedFunction) -> str:
    module = str(getattr(function, "__module__", None) or "client").rpartition(".")[2]
    return f"{module}:{getattr(function, '__name__', type(function).__name__)}"


def make_unique_name(name: str, event: str, taken: set[str | None]) -> str:
    # If two hooks had one name, the second would replace the first: a guard would vanish silently.
    candidates = [name, f"{name}@{event}"]
    while candidates[-1] in taken:
        candidates.append(f"{name}@{event}-{len(candidates)}")
    return candidates[0] if name not in taken else candidates[-1]
