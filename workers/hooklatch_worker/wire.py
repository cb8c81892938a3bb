"""The messages between daemon, zygote and worker, and their frames.  Knows no processes and no policies.

A frame is a big-endian 32-bit length and one msgpack document.  The daemon and a worker share a private stream
socket; the daemon and the zygote share a socket that keeps messages apart, beside which file descriptors
travel.  Every message of a call carries `(generation, call_id)`: a late answer of an
earlier worker can never be taken for the present one's.  Nothing here is ever unpickled.
"""

from __future__ import annotations

import math
import struct
from typing import ClassVar

import msgspec

from hooklatch_worker.author.call_context import EmittedTelemetry
from hooklatch_worker.author.marker import MarkedEvent
from hooklatch_worker.author.state import StateRequest

__all__ = [
    "ISOLATION_LEVELS", "MAX_BUILD", "MAX_CAPTURE", "MAX_FRAME", "MAX_RUN_SECONDS", "PROGRESS", "PROGRESS_BYTES",
    "CallAnswered", "CallSilent", "BuildFiles", "RunCall", "LoadCode", "HookDeclaration", "ForeignHook", "WorkerExited",
    "ForkWorker", "ForkFailed", "WorkerForked", "FrameError", "FrameReader", "FromWorker", "FromZygote", "Isolation",
    "LoadFailed", "SourceLoaded", "FollowingCall", "ZygoteReady", "Source", "StateResponse", "WorkerLimits",
    "decode_from_zygote", "encode_body", "encode_frame", "take_from_worker",
]  # fmt: skip

ISOLATION_LEVELS = ("standard", "restricted", "strict")  # from the weakest to the strongest
MAX_FRAME = 24 * 2**20  # a payload of 8 MiB, its merged copy, and its envelope
MAX_BUILD = 16 * 2**20  # bytes of all files of a build: a frame holds them, and so does each of its workers
MAX_CAPTURE = 64 * 2**10  # last bytes of a call's standard output (and error) that its outcome shows
MAX_RUN_SECONDS = 0.005  # of hooks before one that is run in the same call: others may wait for the worker
HEADER = struct.Struct("!I")
HEADER_BYTES, read_length, write_length = HEADER.size, HEADER.unpack_from, HEADER.pack_into
# A hook of `following` has begun: the moment on the monotonic clock, and its call id.  The worker writes it into memory
# that it shares with the daemon, at the hook's place.  The daemon looks there if the worker dies or is late.
PROGRESS = struct.Struct("=dQ")
PROGRESS_BYTES = 4096


class FrameError(Exception):
    """The other side sent bytes that are not a frame, or not one of our messages."""


class Source(msgspec.Struct, frozen=True):
    """The source of hooks: a file (absolute path and sha256 of its bytes) or an importable module."""

    kind: str
    location: str
    digest: str = ""


class Isolation(msgspec.Struct, frozen=True):
    """The isolation of a worker by the kernel; with `is_required` it does not start if the kernel cannot enforce it.

    `standard` always applies.  `restricted` writes only below the paths of `write`, and has no network unless `network`
    is set; `strict` also reads only code, the system and the paths of `read`, and makes no connection at all.
    Each worker of these two levels gets its own directory below `temporary`.
    """

    level: str = "standard"
    is_required: bool = True
    write: list[str] = []
    read: list[str] = []
    network: bool = False
    temporary: str = ""


class WorkerLimits(msgspec.Struct, frozen=True):
    """Resource limits of one worker, in the units of setrlimit(2), and how it is isolated."""

    open_files: int = 256
    file_bytes: int = 64 * 2**20
    isolation: Isolation = Isolation()


class ForkWorker(msgspec.Struct, frozen=True, tag="fork"):
    """Daemon to zygote: fork a worker for this source."""

    generation: int
    source: Source
    limits: WorkerLimits


class ZygoteReady(msgspec.Struct, frozen=True, tag="ready"):
    """Zygote to daemon: it is ready."""

    pid: int


class WorkerForked(msgspec.Struct, frozen=True, tag="forked"):
    """Zygote to daemon; with it come the worker's socket, its output and error, its progress, and its pidfd."""

    generation: int
    pid: int


class ForkFailed(msgspec.Struct, frozen=True, tag="fork_failed"):
    generation: int
    message: str


class WorkerExited(msgspec.Struct, frozen=True, tag="exited"):
    """Zygote to daemon: a worker has ended, with an exit code or a negative signal number.  For diagnostics only."""

    generation: int
    pid: int
    code: int


class BuildFiles(msgspec.Struct, frozen=True, array_like=True):
    """The files of a source's folder that its workers run or read, besides the source itself.

    `files` has their bytes by path, `names` those that hooks name as data.  `folders` are the directories in which
    modules were searched, each with its importable parts: the names of modules, the first file of each package as a
    path below it, and other directories with a slash at the end.
    """

    files: dict[str, bytes] = {}
    folders: dict[str, list[str]] = {}
    names: list[str] = []


class LoadCode(msgspec.Struct, frozen=True, tag="code", array_like=True):
    """Daemon to worker, before anything else: the bytes of the file to import, and of its build; empty for a module.

    They are the bytes that were checked.  The files may have other bytes by now, which must not run instead, and must
    not keep the last good version from getting new workers.  Modules below `folder` are imported from the build or not
    at all.  With `is_open` the worker proves a build: it reads the files that it imports, and reports them.  `pins` has
    the sha256 of each file that it may read for that, by path; without pins it may read all.
    """

    data: bytes
    folder: str = ""
    build: BuildFiles = BuildFiles()
    is_open: bool = False
    pins: dict[str, str] | None = None


class FollowingCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One more hook of a `RunCall`; all other fields are those of the first hook."""

    call_id: int
    timeout: float
    function: str
    config: bytes = b""
    runtime: str = "trio"


class RunCall(msgspec.Struct, frozen=True, tag="call", array_like=True, gc=False):
    """Daemon to worker: run one hook, within `timeout` seconds.

    `payload`, `envelope`, `config` and `merged` are JSON objects.  The hooks of `following` are run after it, in order,
    as long as all hooks before had no opinion, at most MAX_RUN_SECONDS have passed, and the `limit` of all has not.
    """

    generation: int
    call_id: int
    timeout: float
    function: str
    event: str
    payload: memoryview  # a part of the frame: to copy 4 MiB took longer than to parse its JSON
    envelope: bytes
    config: bytes = b""
    merged: bytes = b""
    reinvoked: bool = False
    runtime: str = "trio"
    is_native: bool = False  # it may answer with any plain value in a dialect's format, which the daemon reads
    limit: float = math.inf  # seconds
    following: list[FollowingCall] = []


class HookDeclaration(msgspec.Struct, frozen=True):
    """A function marked with @hook, as found in a source."""

    function: str
    line: int
    marker: MarkedEvent


class ForeignHook(msgspec.Struct, frozen=True):
    """A function marked with @hook in another file than the source's: not a hook, unless that file is a source too."""

    function: str
    module: str
    file: str
    line: int


class SourceLoaded(msgspec.Struct, frozen=True, tag="loaded", array_like=True):
    """Worker to daemon: the source is imported.

    `files` are the files that ran.  Those of a file's folder have their sha256, which is empty outside of the build;
    those of a module's package have none.  `build` is sent by a worker that proves a build.
    `elsewhere` are the marked functions that it imported but does not define: those in modules of its directory, and if
    it has no marks of its own, those that it imported by name.
    `isolation` is the level that is fully active, and `missing` are the parts that the configured level has beyond it.
    """

    generation: int
    hooks: list[HookDeclaration]
    functions: list[str]
    files: dict[str, str]
    isolation: str = "standard"
    missing: list[str] = []
    elsewhere: list[ForeignHook] = []
    build: BuildFiles | None = None


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed", array_like=True):
    """Worker to daemon: the source is not imported; `is_outside` if it tried to run a file outside of its build."""

    generation: int
    message: str
    file: str
    line: int
    is_outside: bool = False


class CallAnswered(msgspec.Struct, frozen=True, tag="answered", array_like=True, gc=False):
    """Worker to daemon: the hook has ended, with this result.

    `answer` is JSON for `verdicts.decode_answer`, empty for no opinion.  With a `cause` there is no answer.
    Of a call with `following` hooks, this is the result of the last hook that ran; `earlier_seconds` has the duration
    of each hook before it, all of which had no opinion.
    """

    generation: int
    call_id: int
    answer: bytes = b""
    cause: str = ""
    message: str = ""
    traceback: str = ""
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    exit_code: int | None = None
    emitted: list[EmittedTelemetry] = []
    earlier_seconds: list[float] = []


class CallSilent(msgspec.Struct, frozen=True, tag="silent", array_like=True, gc=False):
    """Worker to daemon: the hook has ended, and did no more than return None.  Nearly every answer of a guard is this.

    Of a call with `following` hooks, this is the result of the first one, after which no other began.
    """

    generation: int
    call_id: int
    answer: ClassVar[bytes] = b""
    cause: ClassVar[str] = ""
    message: ClassVar[str] = ""
    traceback: ClassVar[str] = ""
    emitted: ClassVar[list[EmittedTelemetry]] = []
    earlier_seconds: ClassVar[list[float]] = []


class StateResponse(msgspec.Struct, frozen=True, tag="told", array_like=True):
    """Daemon to worker: the result of a `StateRequest`.

    `value` is JSON, empty for none; with an `error` nothing changed.
    """

    generation: int
    call_id: int
    number: int
    value: bytes = b""
    error: str = ""


FromWorker = SourceLoaded | LoadFailed | CallAnswered | CallSilent | StateRequest
FromZygote = ZygoteReady | WorkerForked | ForkFailed | WorkerExited

ENCODER = msgspec.msgpack.Encoder()
encode_body = ENCODER.encode  # returns a message's msgpack bytes, without a length
FROM_WORKER: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
FROM_ZYGOTE: msgspec.msgpack.Decoder[FromZygote] = msgspec.msgpack.Decoder(FromZygote)


def encode_frame(message: msgspec.Struct) -> bytearray:
    """Return a message as one frame."""
    data = bytearray(HEADER_BYTES)
    ENCODER.encode_into(message, data, HEADER_BYTES)
    write_length(data, 0, len(data) - HEADER_BYTES)
    return data


def take_from_worker(reader: FrameReader, data: bytes = b"") -> FromWorker | None:
    """Take the next whole message of a worker, which is not trusted; None if there is none yet.

    Raises:
        FrameError: these bytes are not one of our messages.
    """
    try:
        body = reader.take(data)
        return FROM_WORKER.decode(body) if body is not None else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise FrameError(f"undecodable message: {error}") from None


def decode_from_zygote(data: bytes) -> FromZygote:
    """Decode a message of the zygote.

    Raises:
        FrameError: these bytes are not one of our messages.
    """
    try:
        return FROM_ZYGOTE.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise FrameError(f"undecodable message: {error}") from None


class FrameReader(msgspec.Struct, eq=False):
    """Splits a stream of bytes into the bodies of frames.

    Give `take` the received bytes, then take bodies until there is none.  A frame that arrived whole is not copied.
    `held` is the buffer whose bytes from `_begin` on are not taken yet; empty if there are none.
    """

    held: bytes | bytearray = b""
    _begin: int = 0  # of the next frame

    def take(self, data: bytes = b"") -> memoryview | None:
        """Return the next whole body, or None.

        Raises:
            FrameError: the announced length is over MAX_FRAME.
        """
        if not self.held and (size := len(data) - HEADER_BYTES) >= 0 and read_length(data)[0] == size <= MAX_FRAME:
            return memoryview(data)[HEADER_BYTES:]  # nearly always it is one whole frame
        buffer = self._join_held(data) if self.held else data
        body = self._begin + HEADER_BYTES
        if len(buffer) >= body:
            (length,) = read_length(buffer, self._begin)
            if length > MAX_FRAME:
                raise FrameError(f"a frame of {length} bytes is over the limit of {MAX_FRAME}")
            if (end := body + length) <= len(buffer):
                self.held, self._begin = (buffer, end) if end < len(buffer) else (b"", 0)
                return memoryview(buffer)[body:end]
        self.held = buffer
        return None

    def _join_held(self, data: bytes) -> bytes | bytearray:
        if not data:
            return self.held
        if self._begin or not isinstance(self.held, bytearray):
            self.held = bytearray(memoryview(self.held)[self._begin :])
            self._begin = 0
        self.held += data
        return self.held
