"""What a scripted daemon does with a connection, for the tests of all clients."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from hooklatch.client.protocol.liveness import Liveness
from support.scripted_daemon import Peer, decision

IMPATIENT = Liveness(interval=0.02, misses=6, connect=0.2)  # only where nothing is to come: a busy machine is as silent
PINGING = Liveness(interval=0.005, misses=100)  # so many turns of the client pass before the script's thread has one
CALL = {"hook": "guard", "call_id": "c1", "event": "pre_tool_use", "payload": {"tool_name": "Bash"}, "envelope": {}}


def under_asyncio(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a plain test of an async one, since those are run under trio."""

    @functools.wraps(test)
    def plain(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(test(*arguments, **fixtures))

    return plain


def under_both(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make two plain tests of an async one: under trio and under asyncio."""

    def plain(library: str, **fixtures: Any) -> None:
        anyio.run(functools.partial(test, **fixtures), backend=library)

    signature = inspect.signature(test)
    library = inspect.Parameter("library", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    functools.update_wrapper(plain, test)
    plain.__signature__ = signature.replace(parameters=[library, *signature.parameters.values()])  # type: ignore[attr-defined]
    return pytest.mark.parametrize("library", ["trio", "asyncio"])(plain)


def decide(**answer: Any) -> Callable[[Peer], None]:
    """Welcome the session and give this decision on its first fire."""

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("fire"), decision(**answer))
        peer.read()

    return script


def ask_guard(recorder: Recorder) -> Callable[[Peer], None]:
    """Ask the hook "guard" once, before its registration is answered, and note the reply."""

    def script(peer: Peer) -> None:
        peer.welcome()
        registration = peer.read_until("register")
        peer.say(id=1, method="call", params=CALL)
        recorder.note(peer.read())
        peer.answer(registration, {"ids": ["guard"], "revision": 8})
        peer.read()

    return script


def lose_and_resume(recorder: Recorder) -> tuple[Callable[[Peer], None], Callable[[Peer], None]]:
    """Hang up on a session with a hook and a subscription, and note how it introduces itself again."""

    def first(peer: Peer) -> None:
        peer.welcome()
        peer.answer(peer.read_until("register"), {"ids": ["guard"], "revision": 8})
        peer.answer(peer.read_until("subscribe"), {"revision": 8})

    def second(peer: Peer) -> None:
        recorder.note(peer.welcome(revision=20)["session"])
        peer.answer(peer.read_until("subscribe"), {"revision": 21})
        peer.answer(peer.read_until("fire"), decision(verdict="allow"))
        peer.read()

    return first, second


def hang_up_in_mid_answer(peer: Peer) -> None:
    peer.welcome()
    peer.read_until("fire")
    peer.send(b'{"jsonrpc":"2.0","id":2,"result":{"decision_id"')


def have_no_room(peer: Peer) -> None:
    peer.welcome()
    peer.refuse(peer.read_until("fire"), "overload")
    peer.read()


def answer_with_a_fault(peer: Peer) -> None:
    peer.welcome()
    peer.refuse(peer.read_until("fire"), "internal_error")
    peer.read()


def answer_with_rubbish(peer: Peer) -> None:
    peer.welcome()
    peer.read_until("fire")
    peer.send(b"certainly!\n")
    peer.read()


def answer_with_another_event(peer: Peer) -> None:
    peer.welcome()
    peer.answer(peer.read_until("fire"), decision(event="stop", verdict="allow"))
    peer.read()


def say_nothing(peer: Peer) -> None:
    peer.welcome()
    while peer.read():
        pass


def never_welcome(peer: Peer) -> None:
    while peer.read():
        pass


def answer_pings_first(peer: Peer) -> None:
    """Prove to be alive for longer than silence may last, then decide."""
    peer.welcome()
    fire = peer.read_until("fire")  # a ping may come before it
    for _ in range(PINGING.misses + 2):
        peer.answer(peer.read(), {})
    peer.answer(fire, decision(verdict="allow"))
    while peer.read():
        pass


FAILURES = [
    (hang_up_in_mid_answer, Liveness(), "no_daemon"),
    (say_nothing, IMPATIENT, "no_daemon"),
    (have_no_room, Liveness(), "overload"),
    (answer_with_a_fault, Liveness(), "protocol"),
    (answer_with_rubbish, Liveness(), "protocol"),
    (answer_with_another_event, Liveness(), "protocol"),
]


class Recorder:
    """Keeps what a script saw, for the test to wait for."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.done = threading.Event()

    def note(self, value: Any) -> None:
        self.seen.append(value)
        self.done.set()


def each_fire(*answers: dict[str, Any], seen: list[Any] | None = None) -> Callable[[Peer], None]:
    """Welcome the session and answer its fires with these decisions in turn, whatever the events; note their params."""

    def script(peer: Peer) -> None:
        peer.welcome()
        for answer in answers:
            fire = peer.read_until("fire")
            if seen is not None:
                seen.append(fire["params"])
            event = fire["params"]["event"]
            waits = fire["params"].get("wait", True)
            peer.answer(fire, decision(event, **{"revision": 7, **answer}) if waits else {"accepted": True})
        peer.read()

    return script
