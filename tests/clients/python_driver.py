"""Drives the Python client for the tests of all clients, under asyncio or in threads: commands in, answers out."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any

import msgspec

import hooklatch
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.errors import HooklatchError

PATIENCE = 15.0


def options_of(command: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"host": "conformance"}
    if "liveness" in command:
        options["liveness"] = Liveness(**command["liveness"])
    return options | {key: command[key] for key in ("dialect", "require", "daemon_uid") if key in command}


def fire_of(command: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in command.items() if key not in ("do", "as", "event")}


def described(decision: Any) -> dict[str, Any]:
    return {**msgspec.to_builtins(decision), "allowed": decision.allowed, "is_local": decision.is_local}


def refused(error: BaseException) -> dict[str, Any]:
    return {"error": str(error), "name": getattr(error, "name", ""), "allowed": False}


class Common:
    """What both drivers do alike."""

    def __init__(self) -> None:
        self.session: Any = None
        self.calls: list[Any] = []
        self.called = threading.Condition()

    def served(self, does: dict[str, Any]) -> Any:
        def hook(event: Any) -> Any:
            with self.called:
                self.calls.append(dict(event.payload))
                self.called.notify_all()
            if "raise" in does:
                raise RuntimeError(does["raise"])
            return hooklatch.deny(does["answer"]["reason"]) if does["answer"] else None

        return hook

    def wait_called(self, count: int) -> list[Any]:
        with self.called:
            assert self.called.wait_for(lambda: len(self.calls) >= count, PATIENCE)
        return self.calls

    def opened(self) -> dict[str, Any]:
        session = self.session
        return {
            "connected": session.is_connected,
            "session_id": session.session_id,
            "child_token": session.child_token,
        }


def announced(one: Any) -> dict[str, Any]:
    return {"topic": one.topic, "revision": one.revision, "resync": one.resync, "added": one.added}


class Async(Common):
    """The client under asyncio."""

    async def run(self) -> None:
        pending: dict[str, asyncio.Task[Any]] = {}
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            try:
                if command["do"] == "begin":
                    pending[command["as"]] = asyncio.create_task(self.fire(command))
                    answer: Any = {}
                elif command["do"] == "end":
                    answer = await pending[command["as"]]
                else:
                    answer = await getattr(self, {"called": "called_"}.get(command["do"], command["do"]))(command)
            except (HooklatchError, ValueError, RuntimeError) as error:
                answer = refused(error)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        if self.session is not None:
            await self.session.__aexit__(None, None, None)

    async def open(self, command: dict[str, Any]) -> Any:
        if self.session is not None:
            await self.session.__aexit__(None, None, None)
        self.calls.clear()
        self.session = hooklatch.connect(command["path"], **options_of(command))
        await self.session.__aenter__()
        self.news = self.session.announcements()
        return self.opened()

    async def fire(self, command: dict[str, Any]) -> Any:
        try:
            return described(await self.session.fire(command["event"], **fire_of(command)))
        except HooklatchError as error:
            return refused(error)

    async def serve(self, command: dict[str, Any]) -> Any:
        hook = self.served(command["does"])
        return {"id": (await self.session.register(command["event"], hook, id=command["id"])).id}

    async def unregister(self, command: dict[str, Any]) -> Any:
        return {"revision": await self.session.unregister(command["id"])}

    async def called_(self, command: dict[str, Any]) -> Any:
        return await asyncio.to_thread(self.wait_called, command["count"])

    async def subscribe(self, _: dict[str, Any]) -> Any:
        return {"revision": await self.session.subscribe()}

    async def announcement(self, _: dict[str, Any]) -> Any:
        return announced(await asyncio.wait_for(self.news.__anext__(), PATIENCE))

    async def request(self, command: dict[str, Any]) -> Any:
        return {"result": await self.session.request(command["method"], **command["params"])}

    async def wait(self, command: dict[str, Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while self.session.is_connected != (command["for"] == "connected"):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)
        return {}

    async def close(self, _: dict[str, Any]) -> Any:
        await self.session.__aexit__(None, None, None)
        return {}


class Blocking(Common):
    """The client for threads."""

    def run(self) -> None:
        pending: dict[str, tuple[threading.Thread, list[Any]]] = {}
        for line in sys.stdin:
            command = json.loads(line)
            answer: Any = {}
            try:
                if command["do"] == "begin":
                    pending[command["as"]] = self.begin(command)
                elif command["do"] == "end":
                    thread, answers = pending[command["as"]]
                    thread.join()
                    answer = answers[0]
                else:
                    answer = getattr(self, {"called": "called_"}.get(command["do"], command["do"]))(command)
            except (HooklatchError, ValueError, RuntimeError) as error:
                answer = refused(error)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        if self.session is not None:
            self.session.close()

    def begin(self, command: dict[str, Any]) -> tuple[threading.Thread, list[Any]]:
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(self.fire(command)))
        thread.start()
        return thread, answers

    def open(self, command: dict[str, Any]) -> Any:
        if self.session is not None:
            self.session.close()
        self.calls.clear()
        self.session = hooklatch.connect_sync(command["path"], **options_of(command))
        self.session.__enter__()
        self.news = self.session.announcements()
        return self.opened()

    def fire(self, command: dict[str, Any]) -> Any:
        try:
            return described(self.session.fire(command["event"], **fire_of(command)))
        except HooklatchError as error:
            return refused(error)

    def serve(self, command: dict[str, Any]) -> Any:
        hook = self.served(command["does"])
        return {"id": self.session.register(command["event"], hook, id=command["id"]).id}

    def unregister(self, command: dict[str, Any]) -> Any:
        return {"revision": self.session.unregister(command["id"])}

    def called_(self, command: dict[str, Any]) -> Any:
        return self.wait_called(command["count"])

    def subscribe(self, _: dict[str, Any]) -> Any:
        return {"revision": self.session.subscribe()}

    def announcement(self, _: dict[str, Any]) -> Any:
        return announced(next(iter(self.news)))

    def request(self, command: dict[str, Any]) -> Any:
        return {"result": self.session.request(command["method"], **command["params"])}

    def wait(self, command: dict[str, Any]) -> Any:
        for _ in range(int(PATIENCE / 0.005)):
            if self.session.is_connected == (command["for"] == "connected"):
                return {}
            threading.Event().wait(0.005)
        raise RuntimeError(f"it is not {command['for']}")

    def close(self, _: dict[str, Any]) -> Any:
        self.session.close()
        return {}


if __name__ == "__main__":
    if sys.argv[1] == "async":
        asyncio.run(Async().run())
    else:
        Blocking().run()
