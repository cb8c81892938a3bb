"""The forwarder in Python: it sends one event of a host to the daemon, and gives the host the daemon's answer.

It does what `entry.c` does, in the same order and byte for byte.  One table in tests/entry/ checks both.

    standard input ─▶ one line {"method":"host", ...} ─▶ the daemon ─▶ {"exit_code", "stdout", "stderr"} ─▶ the host

It knows no host: the daemon reads and words everything.  Without a whole and valid answer, a gate is refused and every
other event is silent, as `refusals` says.  Standard output gets nothing or one document, once, at the end.

Every wait is an ordinary blocking call.  One timer ends them all, and so does a signal that would end this process:
the handler answers the host and exits.  Only builtin modules are imported, since an agent waits for the imports.
"""

import posix
import sys
import time

from hooklatch.credentials import connect_socket
from hooklatch.entry.refusals import (
    BLOCK,
    CHUNK,
    DOCUMENTED,
    HANDED,
    HANDED_PREFIXES,
    HANDOVER,
    MAX_FRAME,
    REFUSED,
    RESULT,
    RESULTS,
    SILENCE,
    VARIABLES,
    make_failure_output,
    make_reason,
    quote_json_text,
)
from hooklatch.paths import AGENT_SOCKET, list_candidate_dirs

try:
    import _socket as sockets  # `socket` itself costs as much as starting the interpreter
except ImportError:
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
    from collections.abc import Mapping
    from typing import NoReturn
else:
    import _signal as signals  # `signal` imports enum, and enum half of the library

__all__ = ["ForwarderProcess", "NoAnswerError", "request_answer", "read_entry_reply", "run_entry"]

HEAD = b'{"jsonrpc":"2.0","id":1,"method":"host","params":{"host":"%s","event":"%s","environ":{'
REPLY = '{"jsonrpc":"2.0","id":1,"result":{"exit_code":'
ERRORS = ('{"jsonrpc":"2.0","id":1,"error":{"code":-', '{"jsonrpc":"2.0","id":null,"error":{"code":-')
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
LOOKED_UP = ("HOME", "HOOKLATCH_RUNTIME_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
ENDINGS = (signals.SIGTERM, signals.SIGHUP, signals.SIGINT, signals.SIGQUIT)
NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-")
MAX_NAME = 100


class NoAnswerError(Exception):
    """There is no answer to pass on.  `cause` is a key of `refusals.WORDS`."""

    def __init__(self, cause: str, detail: bytes = b"") -> None:
        super().__init__(cause, detail)
        self.cause = cause
        self.detail = detail


class ForwarderProcess:
    """The command line of the forwarder, and whether it is answering the host already."""

    def __init__(self, words: list[str]) -> None:
        self.host = self.event = self.problem = ""
        self.kind = "gate"
        self.runtime_dir: str | None = None
        self.pins: dict[str, str] = {}  # the options that choose which daemon is started
        self.daemon_uid: int | None = None
        self.limit = 0  # milliseconds
        self.starts = False
        self.is_leaving = False
        self.document = b""
        self._read(words)

    def _read(self, words: list[str]) -> None:
        names: list[str] = []
        seconds = ""
        rest = iter(words)
        for word in rest:
            if word == "--start":
                self.starts = True
            elif word in ("--kind", "--wait", "--runtime-dir", "--daemon-uid", "--config", "--state-dir"):
                value = next(rest, "")
                if not value:
                    self.problem = self.problem or f"{word} needs a value"
                elif word == "--kind":
                    self.kind = value if value in ("context", "notify") else "gate"
                elif word == "--wait":
                    seconds = value
                elif word == "--daemon-uid":
                    self.daemon_uid = parse_uid(value)
                    if self.daemon_uid is None:
                        self.problem = self.problem or "--daemon-uid needs the number of a user"
                else:
                    self.pins[word] = value
            elif word.startswith("-") or len(names) == 2 or not is_name(word):
                self.problem = self.problem or f"unexpected: {word}"
            else:
                names.append(word)
        self.runtime_dir = self.pins.get("--runtime-dir")
        self.host, self.event = (*names, "", "")[:2]
        self.limit = HANDOVER if self.kind == "notify" else parse_milliseconds(seconds)
        if not self.problem and len(names) < 2:
            self.problem = "expected HOST EVENT --kind gate|context|notify --wait SECONDS"
        if not self.problem and not self.limit:
            self.problem = "--wait needs seconds, up to 999999.999"

    def fail(self, cause: str, detail: bytes = b"") -> "NoReturn":
        """Answer the host without a decision, and exit."""
        self.is_leaving = True
        self.leave(*self.make_outputs(cause, detail))

    def make_outputs(self, cause: str, detail: bytes) -> "tuple[int, bytes, bytes]":
        """Return what the host gets without a decision: in place of a tool's result, one in its shape."""
        form = RESULTS.get((self.host, self.event)) if self.kind == "gate" and self.document else None
        if form is not None and (result := make_withheld_result(self.document, make_reason(cause, detail, RESULT))):
            return 0, form[0].encode() + result + form[1].encode(), b""
        if self.kind == "notify" and self.starts:
            cause = ""  # it starts no daemon, but the first gate will
        return make_failure_output(self.host, self.event, self.kind, cause, detail)

    def leave(self, code: int, stdout: bytes, stderr: bytes) -> "NoReturn":
        """Answer the host, and exit."""
        self.is_leaving = True
        try:
            write_all(1, stdout)
        except OSError as error:
            # The host has read at most a part of the document, so only the exit code can still refuse.
            code, _, complaint = make_failure_output("", "", self.kind, "output", encode_reason(error))
            stderr = complaint
        try:
            write_all(2, stderr)
        except OSError:
            posix._exit(code)  # pyright: ignore[reportPrivateUsage] - there is no other way to report it
        posix._exit(code)  # pyright: ignore[reportPrivateUsage]

    def on_signal(self, number: int, frame: object) -> None:
        if not self.is_leaving:  # else the answer is half written already, and a second one would spoil it
            self.fail("late" if number == signals.SIGALRM else "ended")


def run_entry(words: list[str]) -> "NoReturn":
    """Execute the command line, and exit."""
    entry = ForwarderProcess(words)
    try:
        if entry.problem:
            raise NoAnswerError("usage", encode_text(entry.problem))
        deadline = time.monotonic() + entry.limit / 1000
        for number in (signals.SIGALRM, *ENDINGS):
            signals.signal(number, entry.on_signal)
        # Repeated: the first one may come just before a call begins to block.
        signals.setitimer(signals.ITIMER_REAL, entry.limit / 1000, 0.05)
        check_output()
        document = entry.document = read_input()
        answer = request_answer(entry, document, deadline, posix.environ)
        if entry.kind == "notify":
            code, stdout, stderr = make_failure_output(entry.host, entry.event, "notify", "")
        else:
            code, stdout, stderr = read_entry_reply(entry, answer)
    except NoAnswerError as error:
        entry.fail(error.cause, error.detail)
    except BaseException as error:
        entry.fail("bug", encode_text(f"{type(error).__name__}: {error}"))
    entry.leave(code, stdout, stderr)


# -- the host's side -----------------------------------------------------------------------------------------------


def check_output() -> None:
    """Refuse a closed standard output now: the next descriptor that is opened would take its place."""
    try:
        posix.fstat(1)
    except OSError as error:
        raise NoAnswerError("output", encode_reason(error)) from None


def read_input() -> bytes:
    """Return the document.  One that is too large is read to its end: a host may take a closed pipe for a failure."""
    if posix.isatty(0):
        raise NoAnswerError("terminal")
    chunks: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = posix.read(0, CHUNK)
        except BlockingIOError:
            posix.set_blocking(0, True)
            continue
        except OSError as error:
            raise NoAnswerError("unread", encode_reason(error)) from None
        if not chunk:
            break
        size += len(chunk)
        if size <= MAX_FRAME:
            chunks.append(chunk)
    if size > MAX_FRAME:
        raise NoAnswerError("huge", b"%d bytes" % size)
    try:
        posix.fstat(2)
    except OSError:
        posix.open("/dev/null", posix.O_RDWR)  # takes the place of the closed standard error
    document = b"".join(chunks)
    try:
        document.decode()
    except UnicodeDecodeError:
        raise NoAnswerError("encoding") from None
    return document


def make_withheld_result(document: bytes, reason: bytes) -> bytes:
    """Return a tool's result in the shape that the document has, saying only why; nothing if that cannot be done."""
    try:
        from json import dumps, loads  # here: only an event without a decision pays for them

        from hooklatch.hosts.withholding import say_in_shape

        result = say_in_shape(loads(document)["tool_response"], reason.decode())
        return dumps(result, ensure_ascii=False, separators=(",", ":")).encode()
    except Exception:
        return b""  # the host then gets the form that needs no result


def write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[posix.write(descriptor, rest) :]
        except BlockingIOError:
            posix.set_blocking(descriptor, True)


# -- the daemon's side ---------------------------------------------------------------------------------------------


def request_answer(
    entry: ForwarderProcess, document: bytes, deadline: float, environ: "Mapping[bytes, bytes]"
) -> bytes:
    """Return the line that the daemon answers; `environ` is the host's.

    Raises:
        NoAnswerError: there is none, or none that is whole.
    """
    before = HEAD % (entry.host.encode(), entry.event.encode()) + encode_passed_environment(environ)
    # A line end would end our line.  In JSON a carriage return is as much of a space, and as little part of a string.
    document = document.replace(b"\n", b"\r")
    socket, path = connect_or_start(entry)
    try:
        remaining = max(1, int((deadline - time.monotonic()) * 1000))
        line = b'%s},"budget":%d.%03d,"document":%s}}\n' % (before, remaining // 1000, remaining % 1000, document)
        if len(line) - 1 > MAX_FRAME:
            raise NoAnswerError("huge", b"%d bytes" % (len(line) - 1))
        send_request(entry, socket, path, line)
        return receive_response(entry, socket, path)
    finally:
        socket.close()


def encode_passed_environment(environ: "Mapping[bytes, bytes]") -> bytes:
    pairs: list[bytes] = []
    for name in VARIABLES:
        value = environ.get(name.encode())
        if value is not None:
            try:
                value.decode()
            except UnicodeDecodeError:
                raise NoAnswerError("variable", name.encode()) from None
            pairs.append(b'"%s":"%s"' % (name.encode(), quote_json_text(value)))
    return b",".join(pairs)


def connect_or_start(entry: ForwarderProcess) -> "tuple[sockets.socket, bytes]":
    """Return a connection to the daemon; with `--start`, start it if none listens."""
    environ = look_up_settings()
    connection = try_folders(entry, environ)
    # A notification starts no daemon: it has 750 ms, and its loss does no harm.
    if connection is None and entry.starts and entry.kind != "notify":
        if not has_started(entry):
            raise NoAnswerError("not_started")
        connection = try_folders(entry, environ)
    if connection is None:
        raise NoAnswerError("no_daemon")
    return connection


def try_folders(entry: ForwarderProcess, environ: "dict[str, str]") -> "tuple[sockets.socket, bytes] | None":
    for folder in list_candidate_dirs(entry.runtime_dir, environ):
        if (connection := attempt_connection(entry, folder)) is not None:
            return connection
    return None


def attempt_connection(entry: ForwarderProcess, folder: str) -> "tuple[sockets.socket, bytes] | None":
    path = encode_text(f"{folder.rstrip('/')}/{AGENT_SOCKET}")
    socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        limit_silence(socket)
        connect_socket(socket, path, entry.daemon_uid)
    except (OSError, ValueError):
        socket.close()
        return None
    return socket, path


def limit_silence(socket: "sockets.socket") -> None:
    # struct timeval of two longs.  Not settimeout: a connect would then fail at once where the backlog is full.
    size = sys.maxsize.bit_length() // 8 + 1
    limit = SILENCE.to_bytes(size, sys.byteorder) + bytes(size)
    socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVTIMEO, limit)
    socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDTIMEO, limit)


def send_request(entry: ForwarderProcess, socket: "sockets.socket", path: bytes, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[socket.send(rest) :]
        except BlockingIOError:
            check_alive(entry, path)
        except OSError:
            return  # the daemon hung up, perhaps after sending an error: reading the answer will tell


def receive_response(entry: ForwarderProcess, socket: "sockets.socket", path: bytes) -> bytes:
    received = bytearray()
    searched = 0
    while (end := received.find(b"\n", searched)) < 0:
        searched = len(received)
        if searched > MAX_FRAME:
            raise NoAnswerError("long")
        try:
            chunk = socket.recv(CHUNK)
        except BlockingIOError:
            check_alive(entry, path)
            continue
        except OSError:
            chunk = b""
        if not chunk:
            raise NoAnswerError("hung_up")
        received += chunk
    if end > MAX_FRAME:
        raise NoAnswerError("long")
    return bytes(received[:end])


def check_alive(entry: ForwarderProcess, path: bytes) -> None:
    """Return if the daemon reacts to a new connection at all: by an answer, an error or a hang-up."""
    probe = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        limit_silence(probe)
        connect_socket(probe, path, entry.daemon_uid)
    except OSError:
        raise NoAnswerError("silent") from None
    try:
        probe.send(PING)
        probe.recv(1)
    except BlockingIOError:
        raise NoAnswerError("silent") from None
    except OSError:
        return  # it reset the connection
    finally:
        probe.close()


def read_entry_reply(entry: ForwarderProcess, line: bytes) -> "tuple[int, bytes, bytes]":
    """Return exit code, standard output and standard error out of the daemon's answer.

    Only the one form that the daemon writes is accepted: another program could have written any other.
    """
    try:
        text = line.decode()
        if text.startswith(ERRORS):
            raise NoAnswerError("error", decode_message_text(text))
        begin = len(REPLY)
        code = text[begin : begin + 1]
        if not text.startswith(REPLY) or code not in ("0", "2"):
            raise NoAnswerError("rubbish")
        stdout, end = find_string_after(text, begin + 1, ',"stdout":"')
        stderr, end = find_string_after(text, end, ',"stderr":"')
        if text[end:] != "}}":
            raise NoAnswerError("rubbish")
        outputs = stdout.encode(), stderr.encode()
    except (ValueError, SystemError):
        # SystemError: Python 3.11's scanner raises json.JSONDecodeError only if `json` is imported.
        raise NoAnswerError("rubbish") from None
    return validate_entry_output(entry, int(code), *outputs)


def validate_entry_output(
    entry: ForwarderProcess, code: int, stdout: bytes, stderr: bytes
) -> "tuple[int, bytes, bytes]":
    document = stdout.rstrip(b" \t\r\n")
    if document and not (document.startswith(b"{") and document.endswith(b"}")):
        raise NoAnswerError("rubbish")
    if code == BLOCK and entry.kind == "gate":
        # Where a refusal comes with a document, or without a text, some hosts go on.
        return (
            code,
            stdout if entry.host in DOCUMENTED else b"",
            stderr if stderr.strip(b" \t\r\n") else REFUSED.encode(),
        )
    return code, stdout, stderr


def find_string_after(text: str, begin: int, key: str) -> "tuple[str, int]":
    """Return the string that follows a key, and where it ends."""
    if not text.startswith(key, begin):
        raise NoAnswerError("rubbish")
    begin += len(key)
    if text.startswith('"', begin):  # most answers are empty
        return "", begin + 1
    try:
        from _json import scanstring
    except ImportError:  # not CPython
        from json.decoder import scanstring  # type: ignore[attr-defined,no-redef]
    return scanstring(text, begin, True)  # pyright: ignore[reportUnknownVariableType]


def decode_message_text(text: str) -> bytes:
    begin = text.find(',"message":"')
    return find_string_after(text, begin, ',"message":"')[0].encode(errors="replace") if begin >= 0 else b""


# -- a daemon that is not there ------------------------------------------------------------------------------------


def has_started(entry: ForwarderProcess) -> bool:
    """Run starting.py, which starts the daemon once for all forwarders; return whether a daemon listens then."""
    program = f"{__file__.rpartition('/')[0]}/starting.py"
    words = [sys.executable, "-I", program, "--wait", f"{entry.limit / 1000:.3f}"]
    words += [word for pair in entry.pins.items() for word in pair]
    names, beginnings = [name.encode() for name in HANDED], tuple(name.encode() for name in HANDED_PREFIXES)
    environ = {name: value for name, value in posix.environ.items() if name in names or name.startswith(beginnings)}
    closed = [(posix.POSIX_SPAWN_OPEN, number, "/dev/null", posix.O_RDWR, 0) for number in (0, 1, 2)]
    pid = posix.posix_spawn(sys.executable, words, environ, file_actions=closed, setsid=True)
    return posix.waitpid(pid, 0)[1] == 0


# -- words ---------------------------------------------------------------------------------------------------------


def is_name(word: str) -> bool:
    return 0 < len(word) <= MAX_NAME and NAME.issuperset(word)


def parse_milliseconds(seconds: str) -> int:
    """Return the milliseconds in a number of seconds, 0 if the text is not such a number."""
    whole, point, part = seconds.partition(".")
    is_valid = is_number(whole, 6) and (not point or is_number(part, 3))
    return int(whole) * 1000 + int(part.ljust(3, "0")) if is_valid else 0


def parse_uid(text: str) -> "int | None":
    """Return the number of a user, None if the text is not one; the highest number means "no user" to the kernel."""
    return int(text) if is_number(text, 10) and int(text) < 2**32 - 1 else None


def is_number(digits: str, max_digits: int) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) <= max_digits


def look_up_settings() -> "dict[str, str]":
    encoding = sys.getfilesystemencoding()
    values = [(name, posix.environ.get(name.encode())) for name in LOOKED_UP]
    return {name: value.decode(encoding, "surrogateescape") for name, value in values if value is not None}


def encode_text(text: str) -> bytes:
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def encode_reason(error: Exception) -> bytes:
    return encode_text(str(getattr(error, "strerror", None) or error))
