"""The state machine that decides one event: its phases, and how answers combine.

A gate is denied by default.  The machine knows hooks and verdicts, but no worker and no clock.
"""
