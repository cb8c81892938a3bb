"""One module per system: its events, keys, axes and words as a table.

Data only; a table can make an event stricter, never more permissive.
"""
