"""This host's side of a fleet: its policy on the disk, the active one, the link's token, and the last contact.

Knows settings, files of the daemon and time; does not know the engine, and knows no connection.
"""
