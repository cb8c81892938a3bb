"""Commands of a text, from the tree that `shell/` reads it into: programs that run others, folders, flows, builtins.

Knows programs by tables; parses nothing.
"""
