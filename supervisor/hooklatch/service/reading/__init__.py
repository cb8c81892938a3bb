"""The reading of the declarations of files, projects, plugins and the fleet, and the plan of what a reload takes.

Knows files, formats, pins and the last good versions. It builds no source, and makes no hook.
"""
