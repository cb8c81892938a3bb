"""Which library runs the calling task, trio or asyncio.  Imports the one that is in use, and only that."""

from __future__ import annotations

import sys

from hooklatch.client.runtime import Runtime

__all__ = ["enter_runtime"]


async def enter_runtime() -> Runtime:
    """Return the runtime of the library that runs the calling task.

    Raises:
        RuntimeError: neither trio nor asyncio runs it.
    """
    # Imported where it is known to be in use: neither of them is to cost the other's users anything.
    if is_under_trio():
        from hooklatch.client.trio_runtime import TrioRuntime

        return await TrioRuntime.enter()
    if is_under_asyncio():
        from hooklatch.client.asyncio_runtime import AsyncioRuntime

        return AsyncioRuntime()
    raise RuntimeError("a session is opened under trio or asyncio; for threads there is hooklatch.connect_sync()")


def is_under_trio() -> bool:
    # First: in guest mode an asyncio loop runs beneath trio's tasks.
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def is_under_asyncio() -> bool:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
