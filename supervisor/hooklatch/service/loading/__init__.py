"""The loading of hooks: files are read, built and committed as one revision, again at each change.

Knows reloads and the active plan; does not know sockets or fires.
"""
