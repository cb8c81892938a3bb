"""The `hooklatch` command.

A command's dependencies are only imported when it runs: a person waits for each of them.  The version, which scripts
ask for, needs no parser.
"""

import sys

__all__ = ["main"]

INTERRUPTED = 130  # the code that a shell reports for a command ended by SIGINT


def main() -> int:
    """Run the command line and return the exit code."""
    words = sys.argv[1:]
    try:
        if words == ["--version"]:
            return print_version()
        from hooklatch.cli import commands

        return commands.run(words)
    except KeyboardInterrupt:  # no traceback on Ctrl-C, not even during imports
        return INTERRUPTED
    except BaseExceptionGroup as group:  # from one task of several
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        return INTERRUPTED


def print_version() -> int:
    from hooklatch.cli.terminal import output
    from hooklatch.version import VERSION

    output.prepare_streams()
    output.print_line(f"hooklatch {VERSION}")
    fault = output.finish_output()
    if fault is None:
        return 0
    output.print_error(fault)
    return 74  # Exit.IO_ERROR, whose module costs more than all of this
