"""The version, read from the installed distribution once; knows nothing else."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]

try:
    VERSION = version("hooklatch")
except PackageNotFoundError:  # a bare checkout on the path
    VERSION = "0+unknown"
