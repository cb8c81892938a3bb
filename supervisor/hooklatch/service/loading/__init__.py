"""Loads files, projects and plugins into sources and layers of hooks, again at each change.

Knows directories, builds and the last good versions; does not know sockets or fires.
"""
