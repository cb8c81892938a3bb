"""The `hooklatch` command.  Must stay light: an agent starts `hooklatch hook` for each of its events, and
multiprocessing imports the console script's module again in the daemon's zygote. So what commands need is imported
when it is known which one runs.
"""

import sys

__all__ = ["main"]

INTERRUPTED = 130  # what a shell gives for a command that SIGINT ended


def main() -> int:
    """Run the command line; give the exit code."""
    words = sys.argv[1:]
    if words[:1] == ["hook"]:
        from hooklatch.hosts import shim

        return shim.main(words[1:])
    try:
        from hooklatch.cli import commands

        return commands.run(words)
    except KeyboardInterrupt:  # Ctrl-C has no traceback, from the first import to the last line
        return INTERRUPTED
