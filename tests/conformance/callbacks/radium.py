"""Hooks of the kinds that Radium's tests register, on whichever of its types."""

import os
import time

from hooklatch import Event, Verdict, amend, ask, claim, deny, last, warn
from hooklatch_worker.author.composition import chain, composite, when


def succeed(event: Event) -> None:
    """HookResult::success()"""


def stop(event: Event) -> Verdict:
    """HookResult::stop("stopped"), where something can be refused"""
    return deny("stopped")


def end(event: Event) -> Verdict:
    """HookResult::stop, where nothing can"""
    return last()


def error(event: Event) -> Verdict:
    """HookResult::error("wrong"), which goes on"""
    return warn("wrong")


def fail(event: Event) -> None:
    raise ValueError("broken")


def panic(event: Event) -> None:
    os._exit(101)


def configured(event: Event) -> Verdict:
    return deny(event.config["log_level"])


def approve(event: Event) -> Verdict | None:
    return ask("APPROVAL_REQUIRED") if event.tool_name == "write_file" else None


def redirect(event: Event) -> Verdict:
    return amend(tool_input={**event.tool_input, "path": event.config["path"]})


def shorten(event: Event) -> Verdict:
    return amend(tool_response=event.config["text"])


def rename(event: Event) -> Verdict:
    return amend(tool_name="read_file")


def lower(event: Event) -> Verdict:
    return amend(request={**event.request, "input": event.request["input"].lower()})


def prefix(event: Event) -> Verdict:
    return amend(request={**event.request, "input": f"[checked] {event.request['input']}"})


def answer(event: Event) -> Verdict:
    return amend(response=event.response.upper())


def soften(event: Event) -> Verdict:
    return amend(message=f"sorry: {event.message}")


def handle(event: Event) -> Verdict:
    return claim(f"handled: {event.message}")


def sleep(event: Event) -> None:
    time.sleep(event.data["ms"] / 1000)


def count(event: Event) -> None:
    with open(event.config["file"], "a") as file:
        file.write(".")


both = composite(succeed, error)
one_after_the_other = chain(succeed)
conditional = when(lambda event: event.tool_name == "read_file", stop)
