"""The versions of the package and of the protocol.

The build reads the first one here too: asking the metadata of the installed package would slow every start.
"""

__all__ = ["PROTOCOL", "VERSION", "read_installed_version"]

VERSION = "0.1.0"
PROTOCOL = 1  # a client and a daemon must speak the same one


def read_installed_version() -> str:
    """Return the version that is installed now, which is not that of this process after an upgrade.

    Raises:
        OSError: it cannot be read, or no longer exists.
        ValueError: the file does not name it.
    """
    with open(__file__, encoding="utf-8") as file:
        for line in file:
            if line.startswith("VERSION = "):
                return line.split('"')[1]
    raise ValueError(f"{__file__} does not name a version")
