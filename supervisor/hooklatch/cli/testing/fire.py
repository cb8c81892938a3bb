"""The commands `fire` and `try`: one event, one decision, one exit code.  Without a response they deny by themselves.

`try` asks what the guards say of a command, a path or a URL; `fire` fires any event with any payload.
"""

from __future__ import annotations

import argparse
import os
import select
import shlex
import stat
import sys

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.inputs import read_input
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.cli.terminal.requests import ask_administrator, connect_agent_once
from hooklatch.client.protocol.admin_exchange import encode_argument
from hooklatch.client.protocol.decision_table import DecisionTable, format_decision_table
from hooklatch.core.light_json import RepeatedKeyError, is_object, parse_json, serialize_json
from hooklatch.core.outcome_texts import describe_call, has_failed, read_hook_name
from hooklatch.errors import HooklatchError, RequestFailedError, UnreadableAnswerError

MAX_PAYLOAD = 8 * 2**20  # bytes; that of `core/payload.py`, which loads more than one fire needs
GATE = "pre_tool_use"
PIPE_TIMEOUT = 1.0  # seconds for the first byte of a pipe: a parent may leave one open to which no process writes
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["add_fire", "add_try", "read_piped_payload", "read_payload", "add_payload"]

# Errors by which the daemon reports an unknown event or invalid parameters: the command line is wrong.
MISUSES = ("unknown_event", "invalid_params")


def add_fire(parser: Parser) -> None:
    example = """echo '{"tool_name": "Bash", "tool_input": {"command": "ls"}}' | hooklatch fire pre_tool_use"""
    exits = (Exit.REFUSED, Exit.ASKS, Exit.FAILED, Exit.BAD_DATA, Exit.NO_INPUT)
    parser.runs(run_fire, example=example, exits=exits)
    parser.prints("client.protocol.decisions:Decision")
    parser.means({"--command": "hooklatch try COMMAND", "--tool": "--payload", "--input": "--payload"})
    parser.add_argument("event", metavar="EVENT", help="its name (see: hooklatch events)")
    parser.add_argument(
        "--payload", metavar="JSON|FILE", help="a JSON object, a file with one, or - (default: what is piped in)"
    )
    parser.add_argument("--session", metavar="ID", help="the host's session id, visible to hooks; opens no session")
    parser.add_argument("--cwd", metavar="DIR", help="the agent's working directory (default: this one)")
    parser.add_argument("--host", metavar="HOST", help="the payload is this agent's own document, as of claude-code")
    parser.add_argument(
        "--dialect", metavar="NAME", help="EVENT and payload are in this system's dialect, such as reasonix"
    )
    parser.add_argument("--timeout", metavar="TIME", type=parse_duration, help="for all hooks together: 5, 90s, 2m")


def run_fire(arguments: argparse.Namespace) -> int:
    """Fire an event once; the exit code is the verdict."""
    payload = read_payload(arguments.payload) if arguments.payload is not None else read_piped_payload(PIPE_TIMEOUT)
    if arguments.host is not None or is_host(arguments.dialect):
        params = encode_host_params(arguments, payload or b"{}")
    else:
        params = encode_fire_params(arguments, payload)
    decision = ask_once(arguments, params, arguments.event, is_native=bool(arguments.host or arguments.dialect))
    return say_decision(arguments, decision, list_decision_details(decision), width=9)


def add_try(parser: Parser) -> None:
    exits = (Exit.REFUSED, Exit.ASKS, Exit.FAILED)
    parser.runs(run_try, example="hooklatch try 'git status'", exits=exits)
    parser.prints("client.protocol.decisions:Decision")
    parser.means({"--url": "--fetch", "--path": "--write", "--file": "--write"}, takes_text=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("text", metavar="COMMAND", nargs="?", help="a command as an agent would run it, in quotes")
    what.add_argument("--write", metavar="PATH", help="what they say of a file that is written")
    what.add_argument("--fetch", metavar="URL", help="what they say of a page that is fetched")
    parser.add_argument("--cwd", metavar="DIR", help="the agent's working directory (default: this one)")


def run_try(arguments: argparse.Namespace) -> int:
    """Say what the guards would answer; nothing is run, written or fetched."""
    name, tool_input = "Bash", {"command": arguments.text}
    if arguments.write is not None:
        name, tool_input = "Write", {"file_path": arguments.write, "content": ""}
    elif arguments.fetch is not None:
        name, tool_input = "WebFetch", {"url": arguments.fetch}
    cwd = os.path.abspath(arguments.cwd) if arguments.cwd is not None else find_working_directory()
    payload = serialize_json(encode_argument({"tool_name": name, "tool_input": tool_input})).encode()
    # A session of its own, since guards may count in the state of one, and no agent's count may change.
    envelope = {"cwd": cwd, "session_id": f"try-{os.urandom(4).hex()}"}
    params = add_payload(encode_argument({"event": GATE, "envelope": envelope}), payload)
    decision = ask_once(arguments, params, GATE)
    return say_decision(arguments, decision, list_answer(decision), width=8)


def say_decision(
    arguments: argparse.Namespace, decision: dict[str, Any], lines: Iterator[tuple[str, object]], *, width: int
) -> int:
    return output.say_result(
        decision, is_json=arguments.json, show=lambda: output.say_lines(*lines, width=width),
        code=find_verdict_exit(decision),
    )  # fmt: skip


def list_answer(decision: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what a person wants to know of a decision: the verdict, whose it is, why, and what would run instead."""
    verdict, asked = decision["verdict"], decision.get("outcomes", ())
    yield "verdict", look.paint_text(verdict, look.VERDICTS.get(verdict, "good"))
    yield "guard", read_hook_name(decision)
    yield "reason", decision.get("reason")
    yield "instead", decision.get("instead")
    yield "cause", None if (cause := decision.get("cause")) == "policy" else cause
    patch: object = decision.get("patch")
    changed = patch.get("tool_input") if is_object(patch) else None
    texts = [changed[key] for key in ("command", "file_path", "url") if key in changed] if is_object(changed) else []
    yield "instead", format_json_value(texts[0] if texts else changed)
    for warning in decision.get("warnings", ()):
        yield "warning", warning
    if verdict == "pass":
        names = ", ".join(dict.fromkeys(read_hook_name(outcome) for outcome in asked))
        yield "asked", names or "no guard: none of yours is for this tool; see: hooklatch hooks --event pre_tool_use"


def ask_once(arguments: argparse.Namespace, params: bytes, event: str, *, is_native: bool = False) -> dict[str, Any]:
    """Return the daemon's decision, or the one of a client that got none."""
    try:
        with connect_agent_once(arguments) as link:
            response = link.ask_encoded("fire", params)
        decision = read_decision(response, None if is_native else event)
    except HooklatchError as error:
        if isinstance(error, RequestFailedError) and error.name in MISUSES:
            raise CommandError(Exit.USAGE, error.message) from None
        decision = decide_without(event, error)
        for warning in decision["warnings"]:
            output.print_error(warning)
    else:
        warn_if_untrusted(arguments)
    return decision


def warn_if_untrusted(arguments: argparse.Namespace) -> None:
    """Say that the project around the agent's folder has hooks that were not asked, since it is not trusted."""
    folder = os.path.realpath(arguments.cwd or find_working_directory() or os.sep)
    while not os.path.isdir(hooks := os.path.join(folder, ".hooklatch")):
        if folder == (folder := os.path.dirname(folder)):
            return
    try:
        trusted = [project["folder"] for project in ask_administrator(arguments, "status")["projects"]]
    except HooklatchError as error:
        output.print_error(f"whether {hooks} is trusted is not known: {error}")
        return
    if folder not in trusted:
        text = "is not trusted, so its hooks were not asked; look at them, then: hooklatch trust"
        output.print_error(f"{hooks} {text} {shlex.quote(folder)}")


def is_host(name: str | None) -> bool:
    """Return whether a dialect's name is that of an agent: then its documents are meant."""
    if name is None:
        return False
    from hooklatch.hosts.find import NAMES

    return name in NAMES


def encode_host_params(arguments: argparse.Namespace, payload: bytes) -> bytes:
    """Return the params of the event that an agent's own document means."""
    import msgspec

    from hooklatch.hosts.find import UnknownHostError, find_host
    from hooklatch.hosts.host import UnreadableError

    event: str = arguments.event
    try:
        host = find_host(arguments.host or arguments.dialect)
        named = next((name for name, spec in host.events.items() if event in (name, spec.event)), None)
        if named is None:
            raise CommandError(Exit.USAGE, f"{host.title} has no event {event!r}; it has {', '.join(host.events)}")
        params = host.make_fire(host.read(named, payload, {})).params
    except UnknownHostError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except UnreadableError as error:
        raise CommandError(Exit.BAD_DATA, str(error)) from None
    given = params.envelope
    cwd = os.path.abspath(arguments.cwd) if arguments.cwd is not None else given.cwd or find_working_directory()
    envelope = msgspec.structs.replace(given, cwd=cwd, session_id=arguments.session or given.session_id)
    return msgspec.json.encode(msgspec.structs.replace(params, envelope=envelope, timeout=arguments.timeout))


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
    """Return a JSON object, the one in a file, or the one in standard input for "-", on one line."""
    if name.lstrip().startswith(("{", "[", '"')):
        return compact_json(name.encode("utf-8", "surrogateescape"), "--payload")
    return compact_json(read_input(name, "the payload "), "standard input" if name == "-" else name)


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
    except (ValueError, RecursionError):
        raise CommandError(Exit.BAD_DATA, f"{where}: not JSON: {describe_malformed(text)}") from None
    if not is_object(document):
        raise CommandError(Exit.BAD_DATA, f"{where}: the payload is not a JSON object; write one, such as {{}}")
    # A line is a message.  Line breaks can only occur between tokens: within a string, JSON escapes them.
    return text.replace(b"\n", b" ").replace(b"\r", b" ").strip()


def describe_malformed(text: bytes) -> str:
    """Return where a document is no JSON, and what to write."""
    import json  # what reads it otherwise does not say where it ends

    try:
        json.loads(text)
        problem = "a number or a character in it is none that JSON has"
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    except RecursionError:
        problem = "it is nested too deep"
    except json.JSONDecodeError as error:
        problem = f"{error.msg} (line {error.lineno}, column {error.colno})"
        if error.pos >= len(error.doc.rstrip()):
            problem += "; it ends in the middle"
        elif error.doc[error.pos] == "'":
            problem += "; JSON has double quotes only"
    return f"{problem}; write an object, such as {{}}"


def find_verdict_exit(decision: dict[str, Any]) -> Exit:
    if decision["verdict"] in ("deny", "halt"):
        return Exit.REFUSED if decision.get("cause") == "policy" else Exit.FAILED
    return Exit.ASKS if decision["verdict"] == "ask" else Exit.OK


def list_decision_details(decision: dict[str, Any]) -> Iterator[tuple[str, object]]:
    verdict = decision["verdict"]
    yield "verdict", look.paint_text(verdict, look.VERDICTS.get(verdict, "good"))
    yield "reason", decision.get("reason")
    yield "instead", decision.get("instead")
    yield "hook", read_hook_name(decision)
    yield "cause", decision.get("cause")
    for warning in decision.get("warnings", ()):
        yield "warning", warning
    for key in ("patch", "inject", "append", "resume"):
        yield key, format_json_value(decision.get(key) or None)
    yield "value", format_json_value(decision.get("value"))
    yield "rendered", format_json_value(decision.get("rendered") or None)
    for outcome in decision.get("outcomes", ()):
        yield "asked", describe_call(outcome)
    identity, revision = decision.get("decision_id"), decision.get("revision")
    is_recorded = revision is not None and has_failed(decision)
    hint = f"; to follow it: hooklatch log --decision {identity}" if is_recorded else ""
    at = "" if revision is None else f", revision {revision}"
    yield "decision", f"{identity}{at}, {decision.get('duration_ms', 0.0):.1f} ms{hint}"


def format_json_value(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else output.format_json(value)
