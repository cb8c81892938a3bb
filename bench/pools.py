"""The rivals: pools of processes as a program would use them itself, without a socket, supervision or a record.

Each decodes the payload in its worker and calls the guard.  `block` times one call after the other.  `rate` has several
callers that wait for their answers, as a program has: threads, or tasks where the pool is one of coroutines.
`rate_by_callbacks` has none: the pool's own thread begins a call at each answer, which is the most that it can do.
Pools that are not installed are left out, by name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, NamedTuple

import anyio
import anyio.to_process
import trio

from contenders import PAYLOAD_JSON
from guards import judge
from machine import WARM_CALLS, Block, blocks_of

__all__ = ["Pool", "missing", "pools"]

OPTIONAL = ("pebble", "loky", "trio_parallel")


class Pool(NamedTuple):
    block: Block
    rate: Callable[[int, float], float]  # callers, seconds: calls a second
    rate_by_callbacks: Callable[[int, float], float] | None = None


def missing() -> list[str]:
    return [name for name in OPTIONAL if find_spec(name) is None]


@contextmanager
def pools(workers: int) -> Generator[dict[str, Pool]]:
    """Start each pool that is installed, with this many workers, and end them all."""
    found: dict[str, Pool] = {}
    spawn = get_context("spawn")
    with ExitStack() as stack:
        executor = stack.enter_context(ProcessPoolExecutor(workers, mp_context=spawn))
        found["ProcessPoolExecutor"] = of_futures(partial(executor.submit, judge, PAYLOAD_JSON))
        pool = stack.enter_context(spawn.Pool(workers))
        found["multiprocessing.Pool"] = of_calls(
            lambda: pool.apply(judge, (PAYLOAD_JSON,)),
            lambda done: pool.apply_async(judge, (PAYLOAD_JSON,), callback=done),
        )
        if find_spec("pebble"):
            import pebble

            pebbles = stack.enter_context(pebble.ProcessPool(workers, context=spawn))
            found["pebble"] = of_futures(lambda: pebbles.schedule(judge, args=(PAYLOAD_JSON,)))
        if find_spec("loky"):
            import loky

            lokys = loky.ProcessPoolExecutor(workers)
            stack.callback(lokys.shutdown, wait=True, kill_workers=True)
            found["loky"] = of_futures(lambda: lokys.submit(judge, PAYLOAD_JSON))
        if find_spec("trio_parallel"):
            import trio_parallel

            of_limiter = partial(trio_parallel.run_sync, judge, PAYLOAD_JSON)
            found["trio-parallel"] = of_coroutines(of_limiter, trio.CapacityLimiter, workers)
        found["anyio.to_process"] = of_coroutines(
            partial(anyio.to_process.run_sync, judge, PAYLOAD_JSON), anyio.CapacityLimiter, workers
        )
        yield found


def of_futures(submit: Callable[[], Any]) -> Pool:
    def begin(done: Callable[[object], None]) -> None:
        submit().add_done_callback(done)

    return of_calls(lambda: submit().result(), begin)


def of_calls(call: Callable[[], object], begin: Callable[[Callable[[object], None]], object]) -> Pool:
    return Pool(blocks_of(call), partial(rate_of_threads, call), partial(rate_of_callbacks, begin))


def rate_of_threads(call: Callable[[], object], callers: int, seconds: float) -> float:
    answered = [0] * callers
    start = time.perf_counter()
    end = start + seconds

    def keep_calling(number: int) -> None:
        while time.perf_counter() < end:
            call()
            answered[number] += 1

    threads = [threading.Thread(target=keep_calling, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(answered) / (time.perf_counter() - start)


def rate_of_callbacks(begin: Callable[[Callable[[object], None]], object], callers: int, seconds: float) -> float:
    """Keep this many calls in flight: each answer begins the next."""
    ended = threading.Semaphore(0)
    start = time.perf_counter()
    end = start + seconds
    answered = 0

    def done(_: object) -> None:
        nonlocal answered  # of one thread: the pool's own, which calls back
        answered += 1
        if time.perf_counter() < end:
            begin(done)
        else:
            ended.release()

    for _ in range(callers):
        begin(done)
    for _ in range(callers):
        ended.acquire()
    return answered / (time.perf_counter() - start)


def of_coroutines(call: Callable[..., Awaitable[object]], limiter_of: Callable[[int], object], workers: int) -> Pool:
    async def block(calls: int) -> list[float]:
        took: list[float] = []
        limiter = limiter_of(workers)
        await call(limiter=limiter)  # which may start its worker: one pool of the two ends with the loop
        for _ in range(calls):
            start = time.perf_counter()
            await call(limiter=limiter)
            took.append((time.perf_counter() - start) * 1e3)
        return took

    async def rate(callers: int, seconds: float) -> float:
        limiter = limiter_of(workers)
        answered = 0

        async def keep_calling(end: float, most: float = float("inf")) -> None:
            nonlocal answered
            while time.perf_counter() < end and most > 0:
                await call(limiter=limiter)
                answered += 1
                most -= 1

        async def all_callers(*arguments: float) -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(callers):
                    nursery.start_soon(keep_calling, *arguments)

        await all_callers(float("inf"), WARM_CALLS)
        answered = 0
        start = time.perf_counter()
        await all_callers(start + seconds)
        return answered / (time.perf_counter() - start)

    return Pool(partial(trio.run, block), partial(trio.run, rate))
