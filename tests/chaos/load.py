"""One client under chaos, as a process of its own: fires without end, and writes its history, until its input ends.

Three kinds: `trio` and `sync` use the project's own clients, with sessions that serve hooks, register some and work in
a project; `shots` speaks bare JSON, one connection for each fire.  Knows the policies' words; judges no answer.

    load.py '{"kind": "trio", "name": "c1", "seed": 1, "socket": "...", "history": "...", "project": "...", ...}'
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import sys
import threading
import time
from typing import Any

import msgspec
import trio

import hooklatch
from chaos.history import Acked, Answered, Change, Heard, Outcome, Pen, Sent, now
from hooklatch import Decision, Event, HooklatchError, Verdict, context, deny

VERSIONED = ("policy", "shell", "project")
PACE = (0.001, 0.02)  # seconds between two fires of one task: many clients share few processors
LONELY_PACE = 0.2  # after a fire that no daemon saw
PATIENCE = 8.0  # seconds for a one-shot; the budget of each gate is less
GATES = ("pre_tool_use", "user_prompt_submit")


class Settings(msgspec.Struct, frozen=True):
    """What a client is told on its command line."""

    kind: str
    name: str
    seed: int
    socket: str
    history: str
    project: str
    silent: str


class Place(msgspec.Struct, frozen=True):
    """Where fires come from: a session or none, whether it serves a hook, whether it works in the project."""

    viewer: str = ""
    serves: bool = False
    is_in_project: bool = False


class Shot(msgspec.Struct, frozen=True):
    """One fire, and what is to be written down before it."""

    event: str
    payload: dict[str, Any]
    sent: Sent
    waits: bool = True


class Script:
    """Chooses what to fire; each payload names its operation, so no two are alike."""

    def __init__(self, settings: Settings, salt: str = "") -> None:
        self._random = random.Random(f"{settings.seed} {settings.name} {salt}")
        self._name = f"{settings.name}{salt}"
        self._count = 0

    def pace(self) -> float:
        return self._random.uniform(*PACE)

    def next(self, place: Place) -> Shot:
        self._count += 1
        op = f"{self._name}-{self._count}"
        event = self._random.choices(
            ["pre_tool_use", "user_prompt_submit", "post_tool_use", "post_model", "message_claim"], [12, 2, 1, 1, 1]
        )[0]
        required: list[str] = []
        match event:
            case "pre_tool_use":
                payload, required, is_forbidden = self._tool_call(op, place)
            case "user_prompt_submit":
                word = self._random.choice(["ask", "forbid"])
                payload, required, is_forbidden = {"prompt": f"{word} {op}"}, ["prompt"], word == "forbid"
            case "message_claim":
                payload, is_forbidden = {"platform": "here", "op": op}, False
            case _:
                payload, is_forbidden = {"tool_name": "Bash", "tool_response": "told", "op": op}, False
        digest = hashlib.sha256(msgspec.json.encode(payload)).hexdigest()
        is_gate = event in GATES
        sent = Sent(op, place.viewer, event, is_gate, 0, digest, is_forbidden, required)
        return Shot(event, payload, sent, is_gate or self._random.random() < 0.7)

    def _tool_call(self, op: str, place: Place) -> tuple[dict[str, Any], list[str], bool]:
        tool = self._random.choice(["Bash", "Edit"])
        refused = ["forbid"]
        required = ["policy"]
        if tool == "Bash":
            required.append("shell")
            refused.append("shellbad")
        if place.serves:
            required.append("served")
            refused.append("servedbad")
        if place.is_in_project:
            required.append("project")
            refused.append("projectbad")
        others = ["plain"] * 8 + ["allow"] * 4 + ["ask"] * 2 + ["amend"] * 4 + ["raise"]
        word = self._random.choice([*others, *(refused * 2)]) if self._random.random() > 0.01 else "boom"
        payload = {"tool_name": tool, "tool_input": {"command": f"{word} {op}"}}
        return payload, required, word in refused or word in ("raise", "boom")


def deadly_shot(op: str) -> Shot:
    """Return a fire whose guard kills its worker."""
    payload = {"tool_name": "Edit", "tool_input": {"command": f"boom {op}"}}
    return Shot("pre_tool_use", payload, Sent(op, "", "pre_tool_use", True, 0, "", True, ["policy"]))


def stamped(sent: Sent) -> Sent:
    return msgspec.structs.replace(sent, at=now())


def told(op: str, decision: Decision) -> Answered:
    """Put a decision into a line of the history."""
    said, head = decision.context or {}, decision.record
    return Answered(
        op=op,
        at=now(),
        verdict=decision.verdict,
        cause=decision.cause,
        decision_id=decision.decision_id,
        revision=decision.revision,
        digest=decision.payload_digest,
        is_local=decision.is_local,
        is_patched=decision.patch is not None,
        outcomes=[Outcome(one.hook, one.outcome, one.verdict, one.cause) for one in decision.outcomes],
        versions={key: said[key] for key in VERSIONED if key in said},
        head=(head.seq, head.hash) if head is not None else None,
    )


def served(event: Event) -> Verdict | None:
    """Be the hook that a client serves."""
    command = str(event.payload["tool_input"]["command"])
    return deny("not by me") if command.startswith("servedbad") else context(served=1)


async def served_async(event: Event) -> Verdict | None:
    return served(event)


# -- under trio --------------------------------------------------------------------------------------------------


async def run_trio(settings: Settings, pen: Pen) -> None:
    places = [
        Place(f"{settings.name}-plain"),
        Place(f"{settings.name}-all", serves=True, is_in_project=True),
    ]
    async with trio.open_nursery() as nursery:
        for place in places:
            nursery.start_soon(run_session, settings, pen, place)
        await trio.lowlevel.wait_readable(0)
        nursery.cancel_scope.cancel()


async def run_session(settings: Settings, pen: Pen, place: Place) -> None:
    options: dict[str, Any] = {"cwd": settings.project if place.is_in_project else "/", "host": "chaos"}
    if place.serves:
        options["hooks"] = [("pre_tool_use", served_async, {"id": "served", "timeout": 1.5})]
    async with (
        hooklatch.connect(settings.socket, session_id=place.viewer, **options) as session,
        trio.open_nursery() as nursery,
    ):
        if session.revision is not None:
            pen.write(Heard(place.viewer, session.revision, now()))
        nursery.start_soon(note_announcements, session, pen, place.viewer)
        for salt in ("x", "y"):
            nursery.start_soon(fire_on, session, pen, place, Script(settings, f"{place.viewer[-1]}{salt}"))
        if not place.serves:
            nursery.start_soon(change_own, session, pen, place.viewer, settings.silent)


async def note_announcements(session: hooklatch.Session, pen: Pen, viewer: str) -> None:
    async for one in session.announcements():
        if one.current is not None:
            pen.write(Heard(viewer, one.current, now()))


async def fire_on(session: hooklatch.Session, pen: Pen, place: Place, script: Script) -> None:
    while True:
        shot = script.next(place)
        pen.write(stamped(shot.sent))
        if shot.waits:
            decision = await session.fire(shot.event, call_id=shot.sent.op, payload=shot.payload)
            pen.write(told(shot.sent.op, decision))
        else:
            await session.fire(shot.event, call_id=shot.sent.op, payload=shot.payload, wait=False)
        await trio.sleep(script.pace() if session.is_connected else LONELY_PACE)


async def change_own(session: hooklatch.Session, pen: Pen, viewer: str, silent: str) -> None:
    """Put a hook of the session's own in and take it out, again and again; after a failure, under a new name."""
    count = 0
    while True:
        await trio.sleep(0.2)
        count += 1
        hook_id = f"own-{count}"
        try:
            change = begin(pen, viewer, hook_id, count, 1)
            registration = await session.register("pre_tool_use", run=f"{silent}:silent", id=hook_id, timeout=1.5)
            pen.write(Acked(change, now(), registration.revision))
            await trio.sleep(0.2)
            change = begin(pen, viewer, hook_id, count, 0)
            revision = await session.unregister(hook_id)
            pen.write(Acked(change, now(), revision))
        except HooklatchError:
            continue  # nobody knows whether it is there; it stays out of sight


def begin(pen: Pen, viewer: str, hook_id: str, count: int, value: int) -> str:
    name = f"{viewer}/{count}/{value}"
    pen.write(Change(name, hook_id, value, now(), viewer))
    return name


# -- in threads --------------------------------------------------------------------------------------------------


def run_sync(settings: Settings, pen: Pen) -> None:
    place = Place(f"{settings.name}-threads", serves=True)
    hooks = [("pre_tool_use", served, {"id": "served", "timeout": 1.5})]
    with hooklatch.connect_sync(settings.socket, session_id=place.viewer, cwd="/", hooks=hooks) as session:
        if session.revision is not None:
            pen.write(Heard(place.viewer, session.revision, now()))

        @session.on_reload
        def note(announcement: hooklatch.Announcement) -> None:
            if announcement.current is not None:
                pen.write(Heard(place.viewer, announcement.current, now()))

        for salt in ("x", "y"):
            thread = threading.Thread(target=fire_in_thread, args=(session, pen, place, Script(settings, salt)))
            thread.daemon = True
            thread.start()
        sys.stdin.buffer.read()
        os._exit(0)  # the threads are in the middle of fires, which then have no end


def fire_in_thread(session: hooklatch.SyncSession, pen: Pen, place: Place, script: Script) -> None:
    while True:
        shot = script.next(place)
        pen.write(stamped(shot.sent))
        if shot.waits:
            pen.write(told(shot.sent.op, session.fire(shot.event, call_id=shot.sent.op, payload=shot.payload)))
        else:
            session.fire(shot.event, call_id=shot.sent.op, payload=shot.payload, wait=False)
        time.sleep(script.pace() if session.is_connected else LONELY_PACE)


# -- one connection a fire ---------------------------------------------------------------------------------------


def run_shots(settings: Settings, pen: Pen) -> None:
    script = Script(settings)
    end_of_input = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), end_of_input.set()), daemon=True).start()
    turn = 0
    while not end_of_input.is_set():
        turn += 1
        place = Place(is_in_project=turn % 2 == 0)
        shot = script.next(place)
        pen.write(stamped(shot.sent))
        cwd = settings.project if place.is_in_project else "/"
        answer = shoot(settings.socket, shot, cwd)
        pen.write(answer if answer is not None else Answered(shot.sent.op, now(), "deny", "no_daemon", is_local=True))
        end_of_input.wait(script.pace() if answer is not None else LONELY_PACE)


def shoot(path: str, shot: Shot, cwd: str) -> Answered | None:
    """Fire once over a connection of its own; None where there is no decision."""
    params = {"event": shot.event, "call_id": shot.sent.op, "payload": shot.payload, "envelope": {"cwd": cwd}}
    line = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "fire", "params": params}) + b"\n"
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(path)
            connection.sendall(line)
            with connection.makefile("rb") as answers:
                answer = json.loads(answers.readline())
        return told(shot.sent.op, msgspec.convert(answer["result"], Decision))
    except (OSError, ValueError, KeyError):
        return None


def main() -> None:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    pen = Pen(settings.history)
    match settings.kind:
        case "trio":
            trio.run(run_trio, settings, pen)
        case "sync":
            run_sync(settings, pen)
        case "shots":
            run_shots(settings, pen)


if __name__ == "__main__":
    main()
