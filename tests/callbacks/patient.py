"""Callbacks that say when they began, and go on when they are told to: by files whose names are in the payload."""

import os
import signal
import time

from hooklatch import allow, hook, inject


def begin(event):
    with open(event.payload["began"], "a") as file:
        file.write(f"{os.getpid()}\n")


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.002)


@hook("pre_tool_use", match="wait", timeout=20)
def wait(event):
    begin(event)
    wait_for(event.payload["go"])
    return allow()


@hook("notification", match="wait", timeout=20)
def wait_too(event):
    wait_for(event.payload["go"])
    begin(event)
    return inject({"role": "user", "content": "done"})


@hook("pre_tool_use", match="hang", timeout=0.5)
def hang(event):
    begin(event)
    time.sleep(3600)


@hook("pre_tool_use", match="die", timeout=20)
def die(event):
    os.kill(os.getpid(), signal.SIGKILL)


@hook("pre_tool_use", match="answer")
def answer(event):
    return allow(str(os.getpid()))
