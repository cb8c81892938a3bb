"""The process in which `test --in-process` runs the hooks of one source: at the same terminal, without limits.

It answers over a socket as a worker does, so the command still has the cases and reports them if it dies.  After the
hooks' own `atexit` functions it sends `ENDED`, so that an end before them can be told apart.
"""

from __future__ import annotations

import atexit
import os
import pdb
import socket
import sys
from mmap import mmap

from hooklatch.testing.in_process import PASSED_ON, TracedFunction, UncapturedOutput
from hooklatch_worker import wire
from hooklatch_worker.runtime.build import ImportedBuild
from hooklatch_worker.runtime.calls import Caller
from hooklatch_worker.runtime.child import CALLS, CODES, ORDERS, read_next_body
from hooklatch_worker.runtime.loader import ImportedSource, SourceError, load_source
from hooklatch_worker.runtime.state_client import StateClient
from hooklatch_worker.systems import system

__all__ = ["ENDED", "INTERRUPTED", "serve_hooks"]

ENDED = b"\0"  # its last message
INTERRUPTED = 130


def serve_hooks(fd: int, parent: int, *, is_debugging: bool) -> None:
    """Load a source, and run its hooks for the command at the other end until that closes the socket."""
    system.die_with_parent(parent)
    connection, reader = socket.socket(fileno=fd), wire.FrameReader()
    order, code = read_next_body(connection, reader), read_next_body(connection, reader)
    if order is None or code is None:
        return
    request = ORDERS.decode(order)
    try:
        source = load_code(request.source, CODES.decode(code))
    except SourceError as error:
        connection.sendall(
            wire.encode_frame(wire.LoadFailed(request.generation, error.message, error.file, error.line))
        )
        return
    connection.sendall(wire.encode_frame(wire.SourceLoaded(request.generation, [], sorted(source.functions), {})))
    functions = {name: TracedFunction(function) for name, function in source.functions.items()}
    state = StateClient(connection, reader, request.generation)
    caller = Caller({**functions}, source.path, UncapturedOutput(), state, mmap(-1, wire.PROGRESS_BYTES), [])
    while (body := read_next_body(connection, reader)) is not None:
        call = CALLS.decode(body)
        answered, traced = caller.run(call), functions.get(call.function)
        raised = traced.error if traced is not None and answered.cause else None
        flush_streams()
        if isinstance(raised, PASSED_ON):
            os._exit(INTERRUPTED)
        if raised is not None and is_debugging:
            print(f"hooklatch: {call.function} raised {type(raised).__name__}; `q` goes on", file=sys.stderr)
            pdb.post_mortem(raised.__traceback__)
            flush_streams()
        connection.sendall(wire.encode_frame(answered))
    # Here and not at exit: only a process that still runs can send that they have ended.
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    flush_streams()
    connection.sendall(ENDED)
    os._exit(0)


def load_code(source: wire.Source, code: wire.LoadCode) -> ImportedSource:
    build = ImportedBuild(source.location, code) if source.kind == "file" else None
    if build is not None:
        build.read_named()
    return load_source(source, build, frozenset(sys.modules))


def flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
