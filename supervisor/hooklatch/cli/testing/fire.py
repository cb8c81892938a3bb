"""fire: one event, one decision, one exit code.  Fails closed: without an answer it denies locally."""

from __future__ import annotations

import argparse
import os
import stat
import sys

import msgspec

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.durations import span
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import one_shot
from hooklatch.client.protocol.decisions import Decision, decide_locally, read_decision
from hooklatch.core.payload import MAX_PAYLOAD, Payload, PayloadError
from hooklatch.errors import HooklatchError, RequestFailedError

__all__ = ["add_fire", "piped_payload", "read_payload"]

# Errors by which the daemon reports an unknown event or invalid parameters: the command line is wrong.
MISUSES = ("unknown_event", "invalid_params")


def add_fire(parser: Parser) -> None:
    example = (
        """echo '{"tool_name": "Bash", "tool_input": {"command": "ls"}}' | hooklatch fire pre_tool_use --payload -"""
    )
    exits = (Exit.REFUSED, Exit.ASKS, Exit.FAILED, Exit.BAD_DATA, Exit.NO_INPUT)
    parser.runs(fire, example=example, exits=exits)
    parser.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    parser.add_argument("--payload", metavar="FILE", help="a file with a JSON object, or - (default: {})")
    parser.add_argument("--session", metavar="ID", help="the host's session id, visible to hooks; opens no session")
    parser.add_argument("--cwd", metavar="DIR", help="the agent's working directory (default: this one)")
    parser.add_argument(
        "--dialect", metavar="NAME", help="EVENT and payload are in this system's dialect, such as reasonix"
    )
    parser.add_argument("--timeout", metavar="TIME", type=span, help="for all hooks together: 5, 90s, 2m")


def fire(arguments: argparse.Namespace) -> int:
    """Fire an event once; the exit code is the verdict."""
    event: str = arguments.event
    params = params_of(arguments, read_payload(arguments.payload))
    try:
        with one_shot(arguments) as link:
            result = link.request("fire", msgspec.json.encode(params))
        answer = msgspec.Raw(msgspec.json.encode(result))
        decision = read_decision(answer, event, is_native=arguments.dialect is not None)
        shown: object = result
    except HooklatchError as error:
        if isinstance(error, RequestFailedError) and error.name in MISUSES:
            raise CommandError(Exit.USAGE, error.message) from None
        local = decide_locally(event, error, wait=True)
        assert isinstance(local, Decision)
        decision = shown = local
        for warning in local.warnings:
            output.complain(warning)
    if arguments.json:
        output.say_json(shown)
    else:
        show(decision)
    return code_of(decision)


def params_of(arguments: argparse.Namespace, payload: bytes) -> dict[str, object]:
    envelope = {"session_id": arguments.session, "cwd": arguments.cwd and os.path.abspath(arguments.cwd)}
    if arguments.cwd is None:
        try:
            envelope["cwd"] = os.getcwd()
        except OSError:  # removed; the daemon may still know its project, and must not treat it as no directory
            envelope["cwd"] = removed_folder()
    params: dict[str, object] = {"event": arguments.event, "payload": msgspec.Raw(payload), "envelope": envelope}
    if len(payload) > MAX_PAYLOAD:
        params |= {"payload": {}, "truncated": True}  # a frame of that size would be rejected; the daemon decides
    for key in ("timeout", "dialect"):
        if (value := getattr(arguments, key)) is not None:
            params[key] = value
    return params


def removed_folder() -> str:
    """Return the former path of the working directory; "", which matches no directory, if unknown."""
    try:
        return os.readlink("/proc/self/cwd").removesuffix(" (deleted)")
    except OSError:
        return ""


def read_payload(name: str | None) -> bytes:
    """Return the JSON object in a file, or in standard input for "-", or an empty one, on one line.

    Raises:
        CommandError: it cannot be read, or is not a JSON object.
    """
    if name is None:
        return b"{}"
    where = "standard input" if name == "-" else name
    try:
        if name == "-":
            data = sys.stdin.buffer.read() if sys.stdin else b""
        else:
            with open(name, "rb") as file:
                data = file.read()
    except OSError as error:
        hint = "; to give JSON itself, pipe it in: --payload -" if where.lstrip().startswith("{") else ""
        raise CommandError(Exit.NO_INPUT, f"the payload {where} cannot be read: {error.strerror}{hint}") from None
    return one_line(data, where)


def piped_payload() -> bytes:
    """Return the JSON object on standard input if that is a pipe or a file; an empty one otherwise, or if it is empty.

    Raises:
        CommandError: it is not a JSON object.
    """
    mode = os.fstat(0).st_mode
    # Shells only create these for "<" and "|"; agents leave sockets open there, which never reach EOF.
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        return b"{}"
    data = sys.stdin.buffer.read() if sys.stdin else b""
    return one_line(data, "standard input") if data.strip() else b"{}"


def one_line(data: bytes, where: str) -> bytes:
    try:
        text = data.decode("utf-8-sig").encode()
        if not Payload(text).fields and not text.strip().startswith(b"{"):
            raise PayloadError("the payload is not a JSON object")
        return msgspec.json.format(text, indent=-1)  # one line, since a line is a message
    except (PayloadError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CommandError(Exit.BAD_DATA, f"{where}: {error}; write an object, such as {{}}") from None


def code_of(decision: Decision) -> Exit:
    match decision.verdict:
        case "deny" | "halt":
            return Exit.REFUSED if decision.cause == "policy" else Exit.FAILED
        case "ask":
            return Exit.ASKS
        case "pass" | "allow" | "claim":
            return Exit.OK


def show(decision: Decision) -> None:
    by = decision.name or (f"{decision.layer}/{decision.hook}" if decision.layer else decision.hook)
    value = None if decision.value is None else msgspec.json.encode(decision.value).decode()
    lines: list[tuple[str, object]] = [
        ("verdict", decision.verdict),
        ("reason", decision.reason),
        ("hook", by),
        ("cause", decision.cause),
        *(("warning", warning) for warning in decision.warnings),
        ("patch", decision.patch),
        ("inject", decision.inject),
        ("append", decision.append),
        ("resume", decision.resume),
        ("value", value),
        ("rendered", decision.rendered),
    ]
    for label, content in lines:
        if content:
            text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            output.say(f"{label:<9}{output.plain(text)}")
    for outcome in decision.outcomes:
        answer = outcome.verdict or outcome.outcome
        why = f" ({outcome.cause}: {outcome.message})" if outcome.cause not in (None, "policy") else ""
        marks = " observed" * outcome.observed + " again" * outcome.reinvoked
        name = outcome.name or f"{outcome.layer}/{outcome.hook}"
        text = f"{name} {answer}{why}{marks}, {outcome.duration_ms:.1f} ms"
        output.say(f"{'asked':<9}{output.plain(text)}")
    revision = "" if decision.revision is None else f", revision {decision.revision}"
    is_to_follow = not decision.is_local and decision.cause not in (None, "policy")
    follow = f"; to follow it: hooklatch log --decision {decision.decision_id}" if is_to_follow else ""
    output.say(f"{'decision':<9}{decision.decision_id}{revision}, {decision.duration_ms:.1f} ms{follow}")
