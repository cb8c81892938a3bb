"""The dashboard: pages on loopback about a running daemon, in a process of its own.

It uses the admin socket as any command does, so it has the rights of its user, and the daemon stays without network
code.  `hooklatch dashboard` starts it. Its libraries come with hooklatch[dashboard].
"""
