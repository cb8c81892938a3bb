"""The version, read from the installed distribution once; knows nothing else."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]


def installed() -> str:
    try:
        return version("hooklatch")
    except PackageNotFoundError:  # a bare checkout on the path
        return "0+unknown"


VERSION = installed()
