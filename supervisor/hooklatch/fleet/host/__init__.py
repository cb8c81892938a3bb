"""This host's side of a fleet in its daemon: its policy, the link's token and methods, and the last contact.

Knows settings, files of the daemon and time; does not know the engine, and knows no connection.
"""
