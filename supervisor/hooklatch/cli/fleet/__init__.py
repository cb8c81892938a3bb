"""Commands about a fleet: what publishers, auditors and operators run.  None of them needs a daemon."""
