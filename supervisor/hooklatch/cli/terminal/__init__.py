"""Shared by all commands: the parser, output, exit codes, durations, and requests to the daemon.

Knows streams and sockets; does not know commands.
"""
