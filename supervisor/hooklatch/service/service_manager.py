"""The notifier of a service manager about the daemon's state (sd_notify(3)).

A notification never fails: a manager that is gone or does not listen changes nothing for the agents.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, MutableMapping

import trio

__all__ = ["Notifier"]

logger = logging.getLogger("hooklatch.notify")
SEND_TIMEOUT = 1.0  # seconds to wait while the manager's queue is full
RECHECK = 1.0  # seconds, at most, between two checks while a vital part has a fault


class Notifier:
    """The connection to the manager, if there is one.  `watchdog` is its timeout in seconds."""

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address
        self.watchdog = watchdog

    @property
    def is_managed(self) -> bool:
        """Return whether a manager has started this process; launchd names the service, as in cli/daemon/launchd."""
        return self._address is not None or os.environ.get("XPC_SERVICE_NAME") == "hooklatch"

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str], pid: int) -> Notifier:
        """Read the address and the watchdog's timeout, and remove the variables."""
        address = environ.pop("NOTIFY_SOCKET", "")
        microseconds, watched = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        if address and not address.startswith(("/", "@")):
            logger.warning("NOTIFY_SOCKET is %r, which is not a path or @name; nothing is notified", address)
            address = ""
        is_watched = microseconds.isdecimal() and int(microseconds) > 0 and watched in ("", str(pid))
        return cls(address or None, int(microseconds) / 1e6 if is_watched else None)

    async def ready(self, status: str) -> None:
        await self.notify(READY=1, MAINPID=os.getpid(), STATUS=status)

    async def reloading(self) -> None:
        await self.notify(RELOADING=1, MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)

    async def stopping(self, status: str) -> None:
        await self.notify(STOPPING=1, STATUS=status)

    async def notify(self, **fields: object) -> None:
        """Send one message."""
        if self._address is None:
            return
        text = "\n".join(f"{name}={' '.join(str(value).split())}" for name, value in fields.items())
        with (
            trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_DGRAM) as channel,
            trio.move_on_after(SEND_TIMEOUT),
        ):
            try:
                await channel.connect(self._address)
                await channel.send(text.encode("utf-8", "backslashreplace"))
            except OSError as error:
                words = " ".join(fields)
                logger.warning("the service manager was not notified: %s", error, extra={"words": words})

    async def keep_alive(self, is_well: Callable[[], bool]) -> None:
        """Feed the watchdog at half its timeout while the vital parts are well. Return if there is no watchdog."""
        if self.watchdog is None or self._address is None:
            return
        pause = self.watchdog / 2
        while True:
            while not is_well():  # noqa: ASYNC110  (nothing signals that a zygote lives again)
                await trio.sleep(min(RECHECK, pause / 4))
            await self.notify(WATCHDOG=1)
            await trio.sleep(pause)
