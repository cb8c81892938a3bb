"""Commands of a text, from the tree that `grammar/` makes of it: programs that run others, folders, flows, builtins.

Knows programs by tables; parses nothing.
"""
