"""This host's side of a fleet: its policy on the disk and in force, who is its link, how long ago it was in contact.

Knows settings, files of the daemon and time; does not know the engine, and knows no connection.
"""
