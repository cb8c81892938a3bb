"""The process in which `test --in-process` runs the hooks of one source: at the same terminal, without limits.

It answers over a socket as a worker does, so whatever becomes of it, the command has the cases and reports them.  At
the end it says so, after all that hooks left to run then.
"""

from __future__ import annotations

import atexit
import os
import pdb
import socket
import sys
from mmap import mmap

from hooklatch.testing.in_process import PASSED_ON, Silent, Watched
from hooklatch_worker import wire
from hooklatch_worker.runtime.build import Build
from hooklatch_worker.runtime.calls import Caller
from hooklatch_worker.runtime.child import CALLS, CODES, ORDERS, next_body
from hooklatch_worker.runtime.loader import SourceError, Unit, load
from hooklatch_worker.runtime.state_client import Line
from hooklatch_worker.sandbox import linux

__all__ = ["ENDED", "INTERRUPTED", "live"]

ENDED = b"\0"  # the last that it says
INTERRUPTED = 130


def live(fd: int, parent: int, *, is_debugging: bool) -> None:
    """Load a source and run its hooks for the command at the other end, until that has no more."""
    linux.die_with_parent(parent)
    connection, reader = socket.socket(fileno=fd), wire.FrameReader()
    order, code = next_body(connection, reader), next_body(connection, reader)
    if order is None or code is None:
        return
    request = ORDERS.decode(order)
    try:
        unit = loaded(request.source, CODES.decode(code))
    except SourceError as error:
        connection.sendall(wire.frame(wire.LoadFailed(request.generation, error.message, error.file, error.line)))
        return
    connection.sendall(wire.frame(wire.Loaded(request.generation, [], sorted(unit.functions), {})))
    functions = {name: Watched(function) for name, function in unit.functions.items()}
    line = Line(connection, reader, request.generation)
    caller = Caller({**functions}, unit.path, Silent(), line, mmap(-1, wire.PROGRESS_BYTES), [])
    while (body := next_body(connection, reader)) is not None:
        call = CALLS.decode(body)
        answered, watched = caller.run(call), functions.get(call.function)
        raised = watched.error if watched is not None and answered.cause else None
        flush()
        if isinstance(raised, PASSED_ON):
            os._exit(INTERRUPTED)
        if raised is not None and is_debugging:
            print(f"hooklatch: {call.function} raised {type(raised).__name__}; `q` goes on", file=sys.stderr)
            pdb.post_mortem(raised.__traceback__)
            flush()
        connection.sendall(wire.frame(answered))
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    flush()
    connection.sendall(ENDED)
    os._exit(0)


def loaded(source: wire.Source, code: wire.Code) -> Unit:
    build = Build(source.location, code) if source.kind == "file" else None
    if build is not None:
        build.read_named()
    return load(source, build, frozenset(sys.modules))


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
