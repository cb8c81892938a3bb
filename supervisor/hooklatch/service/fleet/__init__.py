"""This host's side of a fleet: who is its link, and how long ago the fleet was in contact.

Knows settings, files of the daemon and time; knows no connection and no hook.
"""
