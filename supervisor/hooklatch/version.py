"""The versions of the package and of the protocol.

The build reads the first one here too: asking the metadata of the installed package would slow every start.
"""

__all__ = ["PROTOCOL", "VERSION", "read_installed_version"]

VERSION = "0.1.0"
PROTOCOL = 1  # a client and a daemon must speak the same one


def read_installed_version() -> str:
    """Return the version that is installed now, or raise OSError or ValueError: after an upgrade it is another one."""
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    begin = text.index('\nVERSION = "') + len('\nVERSION = "')
    return text[begin : text.index('"', begin)]
