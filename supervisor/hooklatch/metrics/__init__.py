"""The metrics for Prometheus: measured on the daemon's loop, and served on the loopback or written to a file."""
