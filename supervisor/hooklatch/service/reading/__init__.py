"""Reads what files, projects, plugins and the fleet declare, and plans how much of it a reload takes.

Knows files, formats, pins and the last good versions; builds no source, and makes no hook.
"""
