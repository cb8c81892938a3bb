"""The versions of the package and of the protocol.

The build reads the first one here too: asking the metadata of the installed package would slow every start.
"""

__all__ = ["PROTOCOL", "VERSION"]

VERSION = "0.1.0"
PROTOCOL = 1  # a client and a daemon must speak the same one
