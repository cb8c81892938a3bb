"""`hooklatch hook HOST`: one event from standard input to the daemon, its decision to standard output.

Guarantees that standard output gets nothing or one complete JSON document, and that a gate without a decision is denied
in the form that the host honours.  Exit codes: 0, or 2, the only one that blocks; the host goes on after any other.
"""

import posix
import sys

from hooklatch.hosts import claude_code
from hooklatch.hosts.exchange import NoDaemonError, OversizedAnswerError, exchange
from hooklatch.hosts.light_json import is_object, loads
from hooklatch.hosts.wording import problem_of
from hooklatch.paths import runtime_dirs

__all__ = ["MisuseError", "decide", "run"]

BLOCK = 2
# Bytes of input to keep, in order to learn which event is too big.  The rest is still read: a host whose pipe is closed
# early may take that for a broken hook and go on.
INPUT_LIMIT = 64 * 2**20
CHUNK = 2**16  # the capacity of a pipe
HOSTS = (claude_code.HOST,)
_PROJECT = "CLAUDE_PROJECT_DIR"
_VARIABLES = (b"HOME", b"XDG_RUNTIME_DIR", b"HOOKLATCH_RUNTIME_DIR", _PROJECT.encode())

USAGE = f"""\
usage: hooklatch hook HOST [--runtime-dir DIR] [--event NAME]
       hooklatch hook HOST --settings [--runtime-dir DIR]

Answers one hook event of an agent: its JSON on standard input, the answer on standard output.
HOST is one of: {", ".join(HOSTS)}.

  --settings         print the hooks block for the host's settings, and exit
  --runtime-dir DIR  where agent.sock is (else HOOKLATCH_RUNTIME_DIR, $XDG_RUNTIME_DIR/hooklatch,
                     ~/.local/state/hooklatch/run)
  --event NAME       the host's name of the event, for the answer if the input cannot be read
  --config FILE, --json   accepted and ignored: the daemon has the configuration, the answer is JSON

Exit codes: 0 answered; 2 refused, also on every usage error, since a host goes on after any other code.

example: hooklatch hook claude-code --settings > .claude/settings.local.json
"""


class MisuseError(ValueError):
    """The command line is invalid."""


class CommandLine:
    """The parsed command line."""

    __slots__ = ("event", "runtime_dir", "wants_help", "wants_settings")

    def __init__(self, argv: list[str]) -> None:
        self.event: str | None = None
        self.runtime_dir: str | None = None
        self.wants_settings = False
        self.wants_help = "-h" in argv or "--help" in argv
        hosts: list[str] = []
        words = iter(argv)
        for word in words:
            name, has_value, value = word.partition("=")
            if name in ("--runtime-dir", "--config", "--event"):
                value = value if has_value else next(words, "")
                if not value:
                    raise MisuseError(f"{name} needs a value")
                self.runtime_dir = value if name == "--runtime-dir" else self.runtime_dir
                self.event = value if name == "--event" else self.event
            elif word == "--settings":
                self.wants_settings = True
            elif word.startswith("-"):
                if word not in ("-h", "--help", "--json"):
                    raise MisuseError(f"unknown option {word!r}")
            else:
                hosts.append(word)
        if self.wants_help:
            return
        if len(hosts) != 1 or hosts[0] not in HOSTS:
            raise MisuseError(f"expected one host of {', '.join(HOSTS)}, got {' '.join(hosts) or 'none'}")
        if self.event is not None and self.event not in claude_code.EVENTS:
            raise MisuseError(f"unknown event {self.event!r}, expected one of {', '.join(claude_code.EVENTS)}")


def run(argv: list[str]) -> int:
    """Execute the command line; return the exit code."""
    try:
        options = CommandLine(argv)
    except MisuseError as error:
        return _leave(claude_code.HookOutput(stderr=f"hooklatch hook: {error}\n\n{USAGE}", exit_code=BLOCK))
    if options.wants_help:
        return _leave(claude_code.HookOutput(stdout=USAGE))
    if options.wants_settings:
        # Imported here since it imports json, and is needed once per installation.
        from hooklatch.hosts.settings import claude_code_settings

        return _leave(claude_code.HookOutput(stdout=claude_code_settings(options.runtime_dir)))
    return _answer_event(options)


def _answer_event(options: CommandLine) -> int:
    try:
        native = claude_code.read(_read_input())
    except claude_code.UnreadableError as error:
        return _leave_unread(options.event or error.name, str(error))
    except (OSError, ValueError) as error:
        return _leave_unread(options.event, str(error))
    if options.event is not None and options.event != native.name and native.name not in claude_code.GATES:
        # The event that it names cannot be refused; the event that it is installed for may be a gate.
        return _leave_unread(options.event, _mismatch(options.event, native.name))
    if not native.event:
        return 0
    is_gate = native.name in claude_code.GATES
    try:
        rendered = claude_code.render(native.name, _decision(native, options), document=native.document)
    except Exception as error:
        # Only here is the form of this gate's deny known; the caller can only use exit code 2.
        reason = f"the hook command failed with {type(error).__name__}: {error}"
        rendered = claude_code.render(native.name, claude_code.failure(native.name, "protocol", reason))
    return _leave(rendered, on_broken_output=BLOCK if is_gate else 0)


def _decision(native: claude_code.ClaudeEvent, options: CommandLine) -> dict[str, object]:
    if options.event is not None and options.event != native.name:
        return claude_code.failure(native.name, "protocol", _mismatch(options.event, native.name))
    environment = _environment()
    native.project = environment.get(_PROJECT, "").encode(errors="surrogateescape").decode(errors="replace")
    return decide(native, runtime_dirs(options.runtime_dir, environment))


def _mismatch(installed: str, name: str) -> str:
    return f"the hook for {installed} was called for {name[:100]!a}; install the settings again"


def decide(native: claude_code.ClaudeEvent, directories: list[str]) -> dict[str, object]:
    """Return the daemon's decision, or the local one if there is none."""
    request = claude_code.fire_request(native)
    if request is None:
        reason = f"the event is larger than {claude_code.PAYLOAD_LIMIT} bytes"
        return claude_code.failure(native.name, "payload", reason)
    try:
        line = exchange(request, directories, timeout=claude_code.timeout_of(native.name))
        return _read_answer(line, native.event)
    except NoDaemonError as error:
        reason = f"the hooklatch daemon {error}; start it with `hooklatch serve --detach`"
        return claude_code.failure(native.name, "no_daemon", reason)
    except (OversizedAnswerError, ValueError, RecursionError) as error:
        return claude_code.failure(native.name, "protocol", str(error))


def _read_answer(line: bytes, event: str) -> dict[str, object]:
    try:
        answer = loads(line.decode())
    except ValueError as error:
        raise ValueError(f"the daemon's answer is not JSON: {error}") from None
    if not is_object(answer) or answer.get("jsonrpc") != "2.0":
        raise ValueError("the daemon's answer is not a JSON-RPC message")
    refusal = answer.get("error")
    if refusal is not None:
        message = refusal.get("message") if is_object(refusal) else refusal
        raise ValueError(f"the daemon answered with an error: {message}")
    decision = answer.get("result")
    problem = problem_of(decision)
    if problem or not is_object(decision):
        raise ValueError(problem)
    if answer.get("id") != 1 or decision.get("event") != event:
        raise ValueError("the daemon answered a different request")
    return decision


def _environment() -> dict[str, str]:
    encoding = sys.getfilesystemencoding()
    values = [(name, posix.environ.get(name)) for name in _VARIABLES]
    return {name.decode(): value.decode(encoding, "surrogateescape") for name, value in values if value is not None}


def _read_input() -> bytes:
    if posix.isatty(0):
        raise ValueError("standard input is a terminal; an agent starts this command (see --help)")
    chunks: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = posix.read(0, CHUNK)
        except BlockingIOError:
            posix.set_blocking(0, True)
            continue
        if not chunk:
            break
        size += len(chunk)
        if size <= INPUT_LIMIT:
            chunks.append(chunk)
    if size > INPUT_LIMIT:
        raise ValueError(f"the event is larger than {INPUT_LIMIT} bytes")
    return b"".join(chunks)


def _leave_unread(event: str | None, problem: str) -> int:
    if event == "PermissionRequest":  # which ignores exit code 2
        return _leave(
            claude_code.render(event, claude_code.failure(event, "protocol", problem)), on_broken_output=BLOCK
        )
    if event is not None and event not in claude_code.GATES:
        return 0
    return _leave(claude_code.HookOutput(stderr=f"hooklatch hook: refused: {problem}\n", exit_code=BLOCK))


def _leave(rendered: claude_code.HookOutput, *, on_broken_output: int = BLOCK) -> int:
    try:
        _write(1, rendered.stdout)
    except OSError as error:
        _complain(f"hooklatch hook: the answer could not be written: {error}\n")
        return on_broken_output
    _complain(rendered.stderr)
    return rendered.exit_code


def _complain(text: str) -> None:
    try:
        _write(2, text)
    except OSError:
        return  # there is no other way to report it


def _write(descriptor: int, text: str) -> None:
    rest = memoryview(text.encode(errors="backslashreplace"))
    while rest:
        try:
            rest = rest[posix.write(descriptor, rest) :]
        except BlockingIOError:
            posix.set_blocking(descriptor, True)
