"""Runs `hooklatch` as on a portable system: start.py FOLDER WORDS..., where FOLDER has the socket of a `KernelServer`.

The calls that Linux alone has are taken from this process before anything of the daemon is imported.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from systems.play import enter_command

    enter_command(sys.argv[1])
    from hooklatch.cli import main

    del sys.path[0]
    sys.argv = ["hooklatch", *sys.argv[2:]]
    sys.exit(main())
