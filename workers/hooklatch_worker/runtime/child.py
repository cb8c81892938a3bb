"""A worker, from just after the fork to its end.  Knows one source and one socket, and decides nothing.

    fork → confined → rehearsed → `ForkWorker` → limited → `LoadCode` → isolated → source imported → `SourceLoaded`
         → (`RunCall` → `CallAnswered`)* → exit

Until its order comes, it knows no source, so no call and no replacement waits for that part.

It answers one call at a time and ends by os._exit, so that no exit handler of user code can delay it.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import resource
import signal
import socket
import sys
from mmap import mmap
from typing import Any

import msgspec

from hooklatch_worker import wire
from hooklatch_worker.author.failures import MAX_MESSAGE, make_printable
from hooklatch_worker.runtime.build import ImportedBuild, explain_unread
from hooklatch_worker.runtime.calls import Caller, OutputCapture, file_identity, open_stream
from hooklatch_worker.runtime.loader import ImportedSource, SourceError, check_refusals, load_source
from hooklatch_worker.runtime.state_client import StateClient
from hooklatch_worker.sandbox import environment, isolation
from hooklatch_worker.sandbox.safety import UnsafeFileError
from hooklatch_worker.systems import system

__all__ = ["run_worker"]

SOCKET_FD = 3
REHEARSAL_SOURCE = """
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="nothing")
def look(event):
    if event.tool_name == "nothing":
        return deny("nothing")
    return None
"""
REHEARSAL_COPIES = 20  # copies of that hook are as much as an author writes
REHEARSALS = 8  # CPython's interpreter has adapted to the code by then (PEP 659)
CALLS = msgspec.msgpack.Decoder(wire.RunCall)
CODES = msgspec.msgpack.Decoder(wire.LoadCode)
ORDERS = msgspec.msgpack.Decoder(wire.ForkWorker)


def run_worker(zygote_pid: int, socket_fd: int, stdout_fd: int, stderr_fd: int, progress_fd: int) -> None:
    """Wait for an order, and run the worker that it describes; never return."""
    code = 1
    try:
        confine_worker(zygote_pid)
        progress = mmap(progress_fd, wire.PROGRESS_BYTES)
        code = serve_calls(arrange_descriptors(socket_fd, stdout_fd, stderr_fd), progress)
    finally:
        os._exit(code)


def confine_worker(zygote_pid: int) -> None:
    system.die_with_parent(zygote_pid)
    os.setsid()
    os.umask(0o077)
    signal.set_wakeup_fd(-1)  # inherited: a signal here would wake the zygote
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    system.become_subreaper()  # processes that a call leaves running stay below us, and die with us
    system.forbid_new_privileges()
    prefer_out_of_memory_kill()
    sys.dont_write_bytecode = True


def apply_limits(limits: wire.WorkerLimits) -> None:
    """Set its resource limits; only now, because descriptors were above the limit for a moment."""
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_NOFILE, limits.open_files)
    lower_limit(resource.RLIMIT_FSIZE, limits.file_bytes)


def lower_limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bound, bound))


def prefer_out_of_memory_kill() -> None:
    """Make the kernel choose a worker before the daemon or the agent when memory runs out (proc(5))."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return  # some containers forbid it; the daemon still watches resident memory


def arrange_descriptors(socket_fd: int, stdout_fd: int, stderr_fd: int) -> socket.socket:
    """Put null, output, error and our socket at 0 to 3, and close everything else, above all other workers' sockets."""
    null = os.open(os.devnull, os.O_RDONLY)
    safe = [os.dup(fd) for fd in (null, stdout_fd, stderr_fd, socket_fd)]
    high = [duplicate_high(fd) for fd in safe]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target < SOCKET_FD)
    system.close_from(SOCKET_FD + 1)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (a process's standard streams live as long as it does)
    sys.stdout, sys.stderr = open_stream(1), open_stream(2)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc, assignment]  # theirs are closed
    connection = socket.socket(fileno=SOCKET_FD)
    keep_from_children(connection)
    return connection


def keep_from_children(connection: socket.socket) -> None:
    """Close our socket in every process that a hook forks, which may outlive the call and read another hook's.

    Programs that a hook executes never have the socket (FD_CLOEXEC).
    """
    ours = file_identity(os.fstat(connection.fileno()))

    def close_socket() -> None:
        fd = connection.detach()
        try:
            # Otherwise the hook closed it, and opened another file under that number.
            if file_identity(os.fstat(fd)) == ours:
                os.close(fd)
        except OSError:
            return

    os.register_at_fork(after_in_child=close_socket)


def duplicate_high(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)  # above 0 to 3, so that no dup2 overwrites another


def serve_calls(connection: socket.socket, progress: mmap) -> int:
    capture = OutputCapture(1, 2)
    reader = wire.FrameReader()
    rehearse_call(capture, StateClient(connection, reader, 0), progress)
    earlier_modules = frozenset(sys.modules)
    order = read_next_body(connection, reader)
    if order is None:
        return 0
    request = ORDERS.decode(order)
    generation = request.generation
    apply_limits(request.limits)
    code_body = read_next_body(connection, reader)
    if code_body is None:
        return 0
    try:
        code = CODES.decode(code_body)
        build = ImportedBuild(request.source.location, code) if request.source.kind == "file" else None
        if build is not None and code.is_open:
            build.read_named()
        effective = apply_isolation(request)
        enter_environment(request.source)
        source = load_source(request.source, build, earlier_modules)
        loaded = describe_source(request, source, effective, earlier_modules, is_proof=code.is_open)
    except SourceError as error:
        message, file = make_printable(error.message[:MAX_MESSAGE]), make_printable(error.file)
        failure = wire.LoadFailed(generation, message, file, error.line, error.is_outside)
        connection.sendall(wire.encode_frame(failure))
        return 0
    capture.take()  # what the import printed is not part of a call
    connection.sendall(loaded)
    refusals = build.refusals if build is not None else []
    state = StateClient(connection, reader, generation)
    caller = Caller(source.functions, source.path, capture, state, progress, refusals)
    while True:
        body = read_next_body(connection, reader)
        if body is None:
            return 0
        call = CALLS.decode(body)
        if call.generation != generation:
            return 1
        answered = caller.run_in_order(call, state.check_socket) if call.following else caller.run(call)
        connection.sendall(wire.encode_frame(answered))
        del body, call, answered  # an idle worker holds no payload


def rehearse_call(capture: OutputCapture, state: StateClient, progress: mmap) -> None:
    """Compile and call hooks without effect, so that no import and no call pays for copying the zygote's pages.

    Of 165 page faults of a compilation 50 remain, and of 29 of a call 8.
    """
    names: dict[str, Any] = {}
    exec(compile(REHEARSAL_SOURCE * REHEARSAL_COPIES, "<rehearsal>", "exec", dont_inherit=True), names)
    caller = Caller({"": names["look"]}, "", capture, state, progress, [])
    for _ in range(REHEARSALS):
        call = wire.RunCall(0, 0, 1.0, "", "pre_tool_use", memoryview(b'{"tool_name":null}'), b"{}")
        wire.encode_frame(caller.run(CALLS.decode(wire.encode_body(call))))


def apply_isolation(request: wire.ForkWorker) -> isolation.EffectiveIsolation:
    """Apply the isolation level, before anything of the source runs."""
    try:
        return isolation.confine_process(request.limits.isolation, request.source, str(request.generation))
    except isolation.IsolationError as error:
        raise SourceError(str(error), request.source.location, 0) from None


def enter_environment(source: wire.Source) -> None:
    """Complete the source's own environment, if it has one: that runs code of its packages, which may fail or exit."""
    try:
        environment.complete()
    except BaseException as error:
        text = f"its environment does not start: {type(error).__name__}: {error}"
        raise SourceError(text, source.location, 0) from error


def describe_source(
    request: wire.ForkWorker,
    source: ImportedSource,
    effective: isolation.EffectiveIsolation,
    earlier_modules: frozenset[str],
    *,
    is_proof: bool,
) -> bytearray:
    """Return the frame that describes a source, after importing its hooks' runtimes, so that no call pays for that."""
    for runtime in source.runtimes:
        try:
            importlib.import_module(runtime)
        except ImportError as error:
            text = f"it has a hook that needs {runtime}, which cannot be imported: {error}"
            raise SourceError(text, source.path, 0) from None
    try:
        ran = (
            close_build(source.build, earlier_modules, request.source)
            if source.build is not None
            else dict.fromkeys(source.files, "")
        )
        return wire.encode_frame(
            wire.SourceLoaded(
                request.generation, source.hooks, sorted(source.functions), ran, effective.level, effective.missing,
                source.elsewhere,
                source.build.content() if source.build is not None and is_proof else None,
            )
        )  # fmt: skip
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise SourceError(f"its markers cannot be encoded: {error}", source.path, 0) from None


def close_build(build: ImportedBuild, earlier_modules: frozenset[str], source: wire.Source) -> dict[str, str]:
    """Close the build; return the sha256 of each file that has run."""
    ran = build.collect_run_files(earlier_modules)
    try:
        build.complete()
    except (UnsafeFileError, OSError) as error:
        raise SourceError(explain_unread(error), source.location, 0) from None
    except ImportError:
        pass  # it is among the refusals, which are checked next
    check_refusals(build.refusals, source)
    return ran


def read_next_body(connection: socket.socket, reader: wire.FrameReader) -> memoryview | None:
    body = reader.take() if reader.held else None
    while body is None:
        data = connection.recv(2**16)
        if not data:
            return None
        body = reader.take(data)
    return body
