"""Other systems' event names, keys and words as data, and the code that reads and writes them.

Pure, above the core; the core has no branch on a dialect.
"""
