"""The dashboard: pages on loopback about a running daemon.  A process of its own; the daemon knows nothing of it.

It asks on the admin socket as any command does, so it can do what its user can, and the daemon stays without network
code.  `hooklatch dashboard` starts it; its libraries come with hooklatch[dashboard].
"""
