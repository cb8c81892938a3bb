"""Shell text, read as a shell reads it: a leaf, which imports nothing of the rest.

From characters to the tree of a script in `grammar`, and from the tree to what would run in `reading`.
"""
