"""The parts that all commands share: the parser, output, exit codes, durations, and requests to the daemon."""
