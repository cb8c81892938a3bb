"""From files, projects and plugins to sources and layers of hooks, and again when they change.

Knows folders, builds and the last good versions; knows no socket and no fire.
"""
