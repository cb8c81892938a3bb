"""What all commands share: the parser, output, exit codes, durations, and requests to the daemon.

Knows streams and sockets; knows no command.
"""
