"""Requests that keys of `ui` make of the daemon and of the machine: each waits, and returns a text on what was done.

Knows no screen: the screen calls these in threads of their own, but for the editor, which gets the terminal.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
from collections.abc import Iterable

from hooklatch.cli.hooks.asks import find_user_name, format_resolution
from hooklatch.cli.hooks.status import format_suspension
from hooklatch.cli.terminal.look import shorten_path
from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.cli.terminal.requests import ask_administrator
from hooklatch.core.text import format_count
from hooklatch.git_sources import is_copied
from hooklatch_worker.sandbox import children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import Ask, AskAnswer, HookFailure, ShownHook, SuspendAnswer

__all__ = ["answer_ask", "fetch_failures", "fetch_hook", "find_source", "run_editor", "suspend_guard", "write_case"]


def fetch_hook(arguments: argparse.Namespace, name: str) -> ShownHook | None:
    """Return the daemon's report on one hook, with its last failures; None if there is no such hook."""
    hooks: list[ShownHook] = ask_administrator(arguments, "hook", id=name, session=arguments.session)["hooks"]
    return next((hook for hook in hooks if hook["name"] == name), None)


def fetch_failures(arguments: argparse.Namespace, guards: Iterable[str], decision_id: object) -> dict[str, HookFailure]:
    """Return by guard the failures in one decision that the daemon still has; it keeps the last ones of each hook."""
    found: dict[str, HookFailure] = {}
    for guard in guards:
        hook = fetch_hook(arguments, guard)
        for failure in (hook["last_failures"] if hook is not None else None) or []:
            if failure["decision_id"] == decision_id:
                found[guard] = failure
    return found


def suspend_guard(arguments: argparse.Namespace, guard: str, seconds: float, reason: str) -> str:
    """Suspend a hook, as `hooklatch suspend` does."""
    answer: SuspendAnswer = ask_administrator(arguments, "suspend", id=guard, all=False, seconds=seconds, reason=reason)
    done = f"suspended {format_suspension({**answer['suspended'], 'seconds_left': seconds})}"
    return "; ".join((done, *answer.get("warnings", [])))


def answer_ask(arguments: argparse.Namespace, ask: Ask, verdict: str, reason: str) -> str:
    """Answer an ask, with the digest of what was shown: the daemon refuses an answer to anything else."""
    answer: AskAnswer = ask_administrator(
        arguments, "answer_ask", id=ask["id"], verdict=verdict, reason=reason, by=find_user_name(),
        payload_digest=ask["payload_digest"],
    )  # fmt: skip
    return "".join((f"{ask['id']}: ", *format_resolution(answer["closed"])))


def write_case(arguments: argparse.Namespace, decision_id: str, path: str) -> str:
    """Write a decision as a case to a new file, as `hooklatch record cases` does."""
    from hooklatch.cli.testing.replay import write_cases  # it loads what decides

    chosen = argparse.Namespace(
        decision_id=decision_id, record=None, runtime_dir=arguments.runtime_dir, daemon_uid=arguments.daemon_uid
    )
    path = os.path.expanduser(path)
    written, notes = write_cases(chosen, (), path)
    done = f"wrote {format_count(written.cases, 'case')} to {path}; run them: hooklatch test {shlex.quote(path)}"
    return "; ".join((done, *notes))


def find_source(arguments: argparse.Namespace, guard: str) -> tuple[str, str]:
    """Return the path of the file that declares a hook, and what becomes of a change in it.

    Raises:
        CommandError: no file of this machine does, or it is a copy that would not be loaded once it is changed.
    """
    hook = fetch_hook(arguments, guard)
    place = (hook["origin"] if hook is not None else None) or ""
    path, _, line = place.rpartition(":")
    path = path if line.isdecimal() else place
    if not os.path.isabs(path):
        raise CommandError(Exit.NO_INPUT, f"{guard} has no source on this machine")
    layer = hook["layer"] if hook is not None else ""
    if layer == "fleet" or is_copied(path):
        text = "is a copy, which would not be loaded once it is changed; change it where it comes from"
        raise CommandError(Exit.NO_INPUT, f"{shorten_path(path)} {text}")
    return (
        path,
        "a saved file is loaded at once" if layer != "project" else "what was saved counts after: hooklatch trust",
    )


def run_editor(path: str, then: str) -> str:
    """Run the editor of the environment on a file, at the terminal, and wait for its end; say what comes `then`.

    Raises:
        CommandError: there is none.
    """
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        command = shlex.split(named)
    except ValueError:  # a quote without its end
        command = []
    if not command:
        raise CommandError(Exit.NO_INPUT, f"EDITOR names no program; the source is {path}")
    # Ctrl-C in the editor is for the editor, which is in our group.  A handler, since a child would go on ignoring.
    handler = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        code = children.start_child([*command, path], children.make_user_environment(os.environ)).wait()
    except OSError as error:
        text = f"the editor {command[0]!r} cannot be started ({error.strerror}); the source is {path}"
        raise CommandError(Exit.NO_INPUT, text) from None
    finally:
        signal.signal(signal.SIGINT, handler)
    ended = f"the editor ended with {code}; " if code else ""
    return f"{ended}{shorten_path(path)}: {then}"
