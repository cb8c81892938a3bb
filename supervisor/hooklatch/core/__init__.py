"""The pure part of the daemon: it decides fires, and holds the rules for names, queues, restarts and limits.

There is no clock, no I/O and no task in it.  Tables in tests/core test it.

    machine = start_machine(chain, chain.select(payload), payload, context)   # then next_calls() and receive(),
    decision = machine.decide(decision_id="d", revision=1, duration_ms=0.0)   # until there are no further calls
"""
