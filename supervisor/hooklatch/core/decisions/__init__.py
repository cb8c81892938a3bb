"""The state machine that decides one event: its phases, and how answers combine.

Denied by default; knows hooks and verdicts, but no worker and no clock.
"""
