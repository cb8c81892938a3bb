"""The commands of a fleet: what publishers, auditors and operators run, and on a host `join` and `link`."""
