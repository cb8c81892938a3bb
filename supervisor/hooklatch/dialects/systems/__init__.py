"""One module a system: its events, keys, axes and words as a table.

Data only; a table can tighten an event, never open it.
"""
