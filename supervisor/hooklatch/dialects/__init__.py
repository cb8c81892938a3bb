"""Other systems' words as data, and what reads and writes them.

Pure, above the core; the core has no branch on a dialect.
"""
