"""The `hooklatch` command.

A command's dependencies are only imported when it runs: a person waits for each of them.
"""

import sys

__all__ = ["main"]

INTERRUPTED = 130  # the code that a shell reports for a command ended by SIGINT


def main() -> int:
    """Run the command line and return the exit code."""
    words = sys.argv[1:]
    try:
        from hooklatch.cli import commands

        return commands.run(words)
    except KeyboardInterrupt:  # no traceback on Ctrl-C, not even during imports
        return INTERRUPTED
