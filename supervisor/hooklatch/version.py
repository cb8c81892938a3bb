"""The version, read once from the installed distribution; knows nothing else."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]


def installed() -> str:
    try:
        return version("hooklatch")
    except PackageNotFoundError:  # running from a checkout that is not installed
        return "0+unknown"


VERSION = installed()
