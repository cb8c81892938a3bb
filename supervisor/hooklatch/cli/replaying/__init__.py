"""The commands about kept payloads: `replay` fires them at other hooks, and `record cases` makes cases of them.

They read the record's files, and need no daemon.
"""
