"""The receiver of signals, from before the daemon's start to after its end.  Does not know the daemon's parts.

SIGTERM, SIGINT   before the daemon serves: the start is cancelled; then: handed on (`stop` is a SIGTERM to ourselves)
SIGHUP            before: nothing, since the start reads everything anyway; then: handed on
SIGCHLD           children that nothing else waits for are reaped: as process 1 of a container we adopt strangers
others            whose default is to end a process, and that mean nothing here: logged.  SIGQUIT (Ctrl-\\) and those
                  of a fault or a resource limit keep their default.
"""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import AsyncIterator
from functools import partial

import trio

from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch.processes.zygote import reap_strangers
from hooklatch_worker.systems import system

__all__ = ["SignalReceiver"]

logger = logging.getLogger("hooklatch.daemon")
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
MEANINGLESS = (
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO,
    *system.OTHER_SIGNALS,
)  # fmt: skip


class SignalReceiver:
    """The receiver of signals. `starting` is cancelled by a signal that ends the daemon before it serves."""

    def __init__(self) -> None:
        self.starting = trio.CancelScope()
        self.supervisor = Supervisor("signal receiver")
        self._is_serving = False
        self._sender, self._requests = trio.open_memory_channel[int](math.inf)

    def hand_on(self) -> trio.MemoryReceiveChannel[int]:
        """Return the channel from which requests by signal are read from now on."""
        self._is_serving = True
        return self._requests

    def end(self) -> None:
        """Ask this process to end, as a signal from outside does."""
        signal.raise_signal(signal.SIGTERM)

    async def receive(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Receive until cancelled."""
        with trio.open_signal_receiver(*HANDLED, *MEANINGLESS) as received:
            # Outside this task: without a receiver, the next signal would kill the daemon by default.
            async with self.supervisor.open() as supervisor:
                await supervisor.start(ChildSpec("signals", partial(self._take_all, received)))
                task_status.started()
                await trio.sleep_forever()

    async def _take_all(self, received: AsyncIterator[int]) -> None:
        async for number in received:
            self._take(number)

    def _take(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number not in HANDLED:
            logger.warning("a signal that means nothing here was ignored", extra={"signal": number})
        elif self._is_serving:
            self._sender.send_nowait(number)
        elif number != signal.SIGHUP:
            logger.info("stopping before it was ready", extra={"signal": number})
            self.starting.cancel()

    def _reap(self) -> None:
        try:
            reap_strangers()
        except OSError as error:  # no descriptor is free to list them; the next signal finds them again
            logger.warning("dead children are not reaped yet: %s", error)
