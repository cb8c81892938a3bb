"""The start of a worker: forked, its source imported, isolated as required.  Knows zygotes and what a worker reports.

Does not know calls, nor how many workers there are to be.
"""

from __future__ import annotations

import logging

import trio

from hooklatch.processes import scratch
from hooklatch.processes.life import ZygoteLostError
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.worker import LoadError, Worker
from hooklatch.processes.zygote import Zygote
from hooklatch_worker import wire

__all__ = ["WorkerStarter", "remove_scratch"]

logger = logging.getLogger("hooklatch.pool")
ZYGOTES = 3  # that may die during one start before it counts as failed


class WorkerStarter:
    """Starts the workers of one build of one source."""

    def __init__(self, source: wire.Source, zygote: Zygote, code: wire.Code) -> None:
        self.first: wire.Loaded | None = None  # what the worker that proved this build reported
        self.loading: set[Worker] = set()
        self.started = 0
        self._source = source
        self._zygote = zygote
        self._code = code

    async def start(self, limits: PoolLimits) -> tuple[Worker, wire.Loaded]:
        """Return a worker that has imported the source.

        Raises:
            LoadError: it could not import it, or is isolated less than is required.
            ForkError: it could not be forked.
        """
        for _ in range(ZYGOTES - 1):
            try:
                return await self._start_once(limits)
            except ZygoteLostError as error:
                where = {"source": self._source.location}
                logger.info("worker not started, again with the next zygote: %s", error, extra=where)
        return await self._start_once(limits)

    async def _start_once(self, limits: PoolLimits) -> tuple[Worker, wire.Loaded]:
        worker = Worker(await self._zygote.fork(self._source, limits.worker), may_emit=limits.may_emit)
        self.loading.add(worker)
        try:
            with trio.fail_after(limits.load_timeout):
                loaded = await worker.load(self._code)
            self._check_isolation(loaded, limits)
        except BaseException as error:
            is_orphaned = worker.process.is_orphaned
            worker.kill("it could not be loaded")
            worker.close()
            await remove_scratch(worker, limits)
            if isinstance(error, trio.TooSlowError):
                raise LoadError(f"it did not finish importing within {limits.load_timeout:.0f} s") from None
            if isinstance(error, LoadError) and is_orphaned:
                raise ZygoteLostError("the zygote died while the worker imported") from None
            raise
        finally:
            self.loading.discard(worker)
        self.started += 1
        return worker, loaded

    def _check_isolation(self, loaded: wire.Loaded, limits: PoolLimits) -> None:
        """Refuse a worker that is isolated less than required, or less than the first one was."""
        wanted = limits.worker.isolation
        if wanted.is_required and (loaded.isolation != wanted.level or loaded.missing):
            raise LoadError(f"{wanted.level} isolation is required, but only {loaded.isolation} is active")
        first = self.first = self.first or loaded
        if lost := set(loaded.missing) - set(first.missing):
            raise LoadError(f"it is isolated less than the source's first worker was: {'; '.join(sorted(lost))}")


async def remove_scratch(worker: Worker, limits: PoolLimits) -> None:
    """Remove the temporary directory of a dead worker."""
    root = limits.worker.isolation.temporary
    if root:
        await scratch.remove(root, str(worker.generation))
