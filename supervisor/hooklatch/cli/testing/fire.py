"""The command `fire`: one event, one decision, one exit code.  Without a response it denies by itself."""

from __future__ import annotations

import argparse
import os
import select
import stat
import sys

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.cli.terminal.requests import connect_agent_once
from hooklatch.client.protocol.admin_exchange import encode_argument
from hooklatch.client.protocol.decision_table import DecisionTable, format_decision_table
from hooklatch.core.light_json import RepeatedKeyError, is_object, parse_json, serialize_json
from hooklatch.errors import HooklatchError, RequestFailedError, UnreadableAnswerError

MAX_PAYLOAD = 8 * 2**20  # bytes; that of `core/payload.py`, which loads more than one fire needs
PIPE_TIMEOUT = 1.0  # seconds for the first byte of a pipe: a parent may leave one open to which no process writes
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["add_fire", "read_piped_payload", "read_payload", "add_payload"]

# Errors by which the daemon reports an unknown event or invalid parameters: the command line is wrong.
MISUSES = ("unknown_event", "invalid_params")


def add_fire(parser: Parser) -> None:
    example = """echo '{"tool_name": "Bash", "tool_input": {"command": "ls"}}' | hooklatch fire pre_tool_use"""
    exits = (Exit.REFUSED, Exit.ASKS, Exit.FAILED, Exit.BAD_DATA, Exit.NO_INPUT)
    parser.runs(run_fire, example=example, exits=exits)
    parser.prints("client.protocol.decisions:Decision")
    parser.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    parser.add_argument("--payload", metavar="FILE", help="a file with a JSON object, or - (default: what is piped in)")
    parser.add_argument("--session", metavar="ID", help="the host's session id, visible to hooks; opens no session")
    parser.add_argument("--cwd", metavar="DIR", help="the agent's working directory (default: this one)")
    parser.add_argument(
        "--dialect", metavar="NAME", help="EVENT and payload are in this system's dialect, such as reasonix"
    )
    parser.add_argument("--timeout", metavar="TIME", type=parse_duration, help="for all hooks together: 5, 90s, 2m")


def run_fire(arguments: argparse.Namespace) -> int:
    """Fire an event once; the exit code is the verdict."""
    event: str = arguments.event
    payload = read_payload(arguments.payload) if arguments.payload is not None else read_piped_payload(PIPE_TIMEOUT)
    try:
        params = encode_fire_params(arguments, payload)
        with connect_agent_once(arguments) as link:
            response = link.ask_encoded("fire", params)
        decision = read_decision(response, None if arguments.dialect is not None else event)
    except HooklatchError as error:
        if isinstance(error, RequestFailedError) and error.name in MISUSES:
            raise CommandError(Exit.USAGE, error.message) from None
        decision = decide_without(event, error)
        for warning in decision["warnings"]:
            output.print_error(warning)
    if arguments.json:
        output.say_json(decision)
    else:
        output.say_lines(*list_decision_details(decision), width=9)
    return find_verdict_exit(decision)


def encode_fire_params(arguments: argparse.Namespace, payload: bytes | None) -> bytes:
    envelope = {"session_id": arguments.session, "cwd": arguments.cwd and os.path.abspath(arguments.cwd)}
    params: dict[str, object] = {"event": arguments.event, "envelope": envelope}
    if arguments.cwd is None and arguments.dialect is None:
        envelope["cwd"] = find_working_directory()
    elif arguments.cwd is None:
        params["default_cwd"] = find_working_directory()  # a dialect's payload may have the agent's own folder
    for key in ("timeout", "dialect"):
        if (value := getattr(arguments, key)) is not None:
            params[key] = value
    if payload is None or len(payload) > MAX_PAYLOAD:  # a frame of that size would be rejected; the daemon decides
        params["truncated"], payload = True, b"{}"
    return add_payload(encode_argument(params), payload)


def add_payload(params: object, payload: bytes) -> bytes:
    """Return params as JSON, with the bytes of the payload unchanged."""
    return serialize_json(params)[:-1].encode() + b',"payload":' + payload + b"}"


def read_decision(answer: object, event: str | None) -> dict[str, Any]:
    """Return the decision in a response; without `event` it may be on any, since a dialect has other names.

    Raises:
        UnreadableAnswerError: it is not a decision, or one on another event.
    """
    problem = DecisionTable(parse_json(format_decision_table())).fault(answer)
    if problem or not is_object(answer):
        raise UnreadableAnswerError(f"the answer is not a valid decision: {problem}")
    if event is not None and answer.get("event") != event:
        raise UnreadableAnswerError(f"the answer decides on {answer.get('event')!r}, not on {event!r}")
    return answer


def decide_without(event: str, error: HooklatchError) -> dict[str, Any]:
    """Return the decision of a client without a response."""
    import msgspec

    from hooklatch.client.protocol.decisions import decide_locally  # imports the catalogue

    decision: dict[str, Any] = msgspec.to_builtins(decide_locally(event, error, wait=True))
    return decision


def find_working_directory() -> str:
    """Return the working directory: its former path if it was removed, or "" if that is unknown.

    The daemon may still know the project of a removed directory, and must not treat it as none.  No directory is "".
    """
    try:
        return os.getcwd()
    except OSError:
        pass
    try:
        return os.readlink("/proc/self/cwd").removesuffix(" (deleted)")
    except OSError:
        return ""


def read_payload(name: str) -> bytes:
    """Return the JSON object in a file, or in standard input for "-", on one line."""
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
    return compact_json(data, where)


def read_piped_payload(timeout: float | None = None) -> bytes | None:
    """Return the JSON object on standard input if that is a pipe or a file; an empty one otherwise, or if it is empty.

    Return None for a pipe on which neither a byte nor its end has come within `timeout`; it was not read.
    """
    mode = os.fstat(0).st_mode
    # Shells only create these for "<" and "|"; agents leave sockets open there, which never reach EOF.
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        return b"{}"
    if stat.S_ISFIFO(mode) and timeout is not None and not select.select([0], [], [], timeout)[0]:
        output.print_error(
            f"nothing came on standard input within {timeout:g} s, so it was not read, and the payload is not known;"
            " to wait for it: --payload -; without one: </dev/null"
        )
        return None
    data = sys.stdin.buffer.read() if sys.stdin else b""
    return compact_json(data, "standard input") if data.strip() else b"{}"


def compact_json(data: bytes, where: str) -> bytes:
    text = data.removeprefix(b"\xef\xbb\xbf")
    try:
        document = parse_json(text.decode())
        if b"\\u" in text:
            output.format_json(document).encode()  # fails for a lone surrogate, which the protocol cannot carry
    except RepeatedKeyError as error:
        document = error.value  # valid JSON, which the daemon refuses with its own text
    except (ValueError, RecursionError) as error:
        raise CommandError(Exit.BAD_DATA, f"{where}: not JSON: {error}; write an object, such as {{}}") from None
    if not is_object(document):
        raise CommandError(Exit.BAD_DATA, f"{where}: the payload is not a JSON object; write one, such as {{}}")
    # A line is a message.  Line breaks can only occur between tokens: within a string, JSON escapes them.
    return text.replace(b"\n", b" ").replace(b"\r", b" ").strip()


def find_verdict_exit(decision: dict[str, Any]) -> Exit:
    if decision["verdict"] in ("deny", "halt"):
        return Exit.REFUSED if decision.get("cause") == "policy" else Exit.FAILED
    return Exit.ASKS if decision["verdict"] == "ask" else Exit.OK


def list_decision_details(decision: dict[str, Any]) -> Iterator[tuple[str, object]]:
    verdict = decision["verdict"]
    yield "verdict", look.paint_text(verdict, look.VERDICTS.get(verdict, "good"))
    yield "reason", decision.get("reason")
    yield "hook", find_decision_name(decision)
    yield "cause", decision.get("cause")
    for warning in decision.get("warnings", ()):
        yield "warning", warning
    for key in ("patch", "inject", "append", "resume"):
        yield key, format_json_value(decision.get(key) or None)
    yield "value", format_json_value(decision.get("value"))
    yield "rendered", format_json_value(decision.get("rendered") or None)
    for outcome in decision.get("outcomes", ()):
        cause = outcome.get("cause")
        failure = f" ({cause}: {outcome.get('message', '')})" if cause not in (None, "policy") else ""
        marks = " observed" * outcome.get("observed", False) + " again" * outcome.get("reinvoked", False)
        marks += " unneeded" * outcome.get("unneeded", False)
        result = outcome.get("verdict") or outcome.get("outcome")
        duration = f"{outcome.get('duration_ms', 0.0):.1f} ms"
        yield "asked", f"{find_decision_name(outcome)} {result}{failure}{marks}, {duration}"
    identity, revision = decision.get("decision_id"), decision.get("revision")
    has_failed = revision is not None and decision.get("cause") not in (None, "policy")
    hint = f"; to follow it: hooklatch log --decision {identity}" if has_failed else ""
    at = "" if revision is None else f", revision {revision}"
    yield "decision", f"{identity}{at}, {decision.get('duration_ms', 0.0):.1f} ms{hint}"


def find_decision_name(table: dict[str, Any]) -> str | None:
    return table.get("name") or (f"{table['layer']}/{table.get('hook')}" if table.get("layer") else table.get("hook"))


def format_json_value(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else output.format_json(value)
