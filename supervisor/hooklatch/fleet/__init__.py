"""One policy on many machines: signed versions, bundles of hooks, an engine between publishers and hosts.

The daemon imports `policy` alone, which does no I/O.  Nothing here decides an event.
"""
