"""Async callbacks that do what they should not, under both runtimes.  `how` in the payload chooses."""

import asyncio
import os
import sys
import time

from hooklatch_worker import amend, claim, deny, hook, inject

EVENTS = ["pre_tool_use", "notification", "post_model", "message_claim"]
WELL = {
    "pre_tool_use": deny("well"),
    "notification": inject({"role": "user", "content": "well"}),
    "post_model": amend(response="well"),
    "message_claim": claim("well"),
}


def how(event):
    return event.payload["how"]


def well(event):
    return WELL[event.event]


@hook(EVENTS, match="trio")
async def under_trio(event):
    return await ASYNC[how(event)](event)


@hook(EVENTS, match="asyncio", runtime="asyncio")
async def under_asyncio(event):
    return await ASYNC[how(event)](event)


@hook(EVENTS, match="trio-hang", timeout=0.4)
async def hang_under_trio(event):
    import trio

    await trio.sleep_forever()


@hook(EVENTS, match="asyncio-hang", timeout=0.4, runtime="asyncio")
async def hang_under_asyncio(event):
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


async def meets_the_others(event):
    """Answer once a worker has been here for each event."""
    os.makedirs(event.payload["meeting"], exist_ok=True)
    open(os.path.join(event.payload["meeting"], event.event), "w").close()
    while len(os.listdir(event.payload["meeting"])) < len(EVENTS):
        time.sleep(0.002)
    return well(event)


async def raises_async(event):
    raise ValueError("went wrong")


async def exits_async(event):
    sys.exit(0)


async def denies_async(event):
    return well(event)


async def returns_a_str_async(event):
    return "deny"


async def returns_a_coroutine(event):
    return denies_async(event)


async def leaves_a_generator(event):
    async def numbers():
        try:
            yield 1
        finally:
            print("closed")

    async for _ in numbers():
        return well(event)


ASYNC = {name: value for name, value in list(globals().items()) if callable(value)}
