"""What a call of a tool has for guards to judge: the kind of a tool by its name, and the texts among its arguments.

Knows names of tools and of keys; looks at no disk.
"""
