"""Runs Python as on a portable system: start.py FOLDER, and the words of `python` (-m, -c, or a file).

FOLDER has the socket of a `KernelServer`.  The calls that Linux alone has are taken from this process before anything
of the daemon is imported.
"""

from __future__ import annotations

import os
import runpy
import sys

if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from systems.play import enter_command

    enter_command(sys.argv[1])
    kind, *words = sys.argv[2:]
    if kind == "-m":
        del sys.path[0]
        sys.argv[:] = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path[0], sys.argv[:] = "", ["-c", *words[1:]]
        exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0], sys.argv[:] = os.path.dirname(kind), [kind, *words]
        runpy.run_path(kind, run_name="__main__")
