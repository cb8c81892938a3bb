"""The commands that try hooks out: fire, check, dev, test, replay, and record cases."""
