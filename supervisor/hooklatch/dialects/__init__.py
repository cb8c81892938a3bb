"""Other systems' event names, keys and words as data, and the code that reads and writes them.

Pure, above the core; the core has no branch on a dialect.
"""

from typing import Final

__all__ = ["BUILT_IN"]

BUILT_IN: Final = ("ethos", "exathena", "reasonix", "radium", "beam")  # each is a module with the table in capitals
