"""The same random scripts on a real daemon, through its socket, with real workers.

One daemon serves them all.  Scripts are drawn in a thread, and played in the daemon's own event loop.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given

from model.place import FolderPlace
from model.play import play
from model.scripts import Script, scripts
from support.daemons import Daemon, RpcFailure, running_daemon
from support.profiles import MODEL_REAL, examples


class SocketConversation:
    """A client with a reader of its own, so that several requests can be unanswered."""

    def __init__(self, daemon: Daemon, nursery: trio.Nursery, *, is_admin: bool) -> None:
        self._client = daemon.connect(daemon.admin if is_admin else daemon.agent)
        self._numbers = itertools.count(1)
        self._answers: dict[object, trio.MemorySendChannel[dict[str, Any]]] = {}
        self.announcements: list[dict[str, Any]] = []
        self._ended = trio.Event()
        nursery.start_soon(self._read)

    async def _read(self) -> None:
        try:
            while (message := await self._client.read()) is not None:
                if message.get("method") == "announce":
                    self.announcements.append(message["params"])
                else:
                    self._answers.pop(message["id"]).send_nowait(message)
        except trio.ClosedResourceError:
            return  # we closed it
        finally:
            self._ended.set()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        sender, receiver = trio.open_memory_channel[dict[str, Any]](1)
        number = next(self._numbers)
        self._answers[number] = sender  # before it is sent: the answer may be here when that returns
        await self._client.send_line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        with trio.fail_after(30):
            answer = await receiver.receive()
        if "error" in answer:
            raise RpcFailure(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    async def close(self) -> None:
        await self._client.aclose()
        await self._ended.wait()


class RealPlace(FolderPlace):
    """A running daemon."""

    failure = RpcFailure

    def __init__(self, daemon: Daemon, nursery: trio.Nursery) -> None:
        self.daemon, self._nursery = daemon, nursery
        super().__init__(str(daemon.folder), daemon.parts.dispatcher)

    def write(self, path: str, text: str) -> None:
        self.daemon.write(path, text)

    async def connect(self, *, is_admin: bool) -> SocketConversation:
        return SocketConversation(self.daemon, self._nursery, is_admin=is_admin)

    async def advance(self, seconds: float) -> bool:
        return False  # what follows of time alone is tried on fake workers


@pytest.fixture(autouse=True)
def silence() -> Generator[None]:
    """Keep the log of failures that are made on purpose out of the report."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow  # each script is dozens of requests to real processes
@pytest.mark.timeout(7200)
async def test_a_real_daemon_says_what_the_oracle_says(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, trio.open_nursery() as nursery:
        place, numbers = RealPlace(daemon, nursery), itertools.count()

        @examples(MODEL_REAL)
        @given(scripts(max_size=16))
        def run(script: Script) -> None:
            trio.from_thread.run(play, script, place, f"x{next(numbers)}.")

        await trio.to_thread.run_sync(run)
        nursery.cancel_scope.cancel()
