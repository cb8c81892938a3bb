"""The forwarder, which an agent starts for each event: one behaviour in several forms, its build and its command."""
