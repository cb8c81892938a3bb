"""One policy on many machines: signed versions, bundles of hooks, an engine between publishers and hosts.

A daemon that is in a fleet loads `host`.  The modules beside the folders do no I/O.  Nothing here decides an event.
"""
