"""The program that an agent starts for each hook event: `hooklatch hook HOST`, or this file by its path.

Only an entry point.  A script run by path is compiled every time, so everything that can be cached is elsewhere.  It
catches every error, including those of imports, since an agent takes exit code 1 for "go on".
"""

import posix
import sys

__all__ = ["main"]

BLOCK = 2  # the only exit code that stops the agent


def main(argv: list[str]) -> int:
    """Answer one hook event from standard input; return the exit code."""
    try:
        from hooklatch.hosts.hook_command import run

        return run(argv)
    except BaseException as error:
        _complain(f"hooklatch hook: refused, {type(error).__name__}: {error}\n")
        return BLOCK


def _complain(text: str) -> None:
    try:
        posix.write(2, text.encode(errors="backslashreplace"))
    except OSError:
        return


def _make_importable(package_folder: str) -> None:
    # Register an empty package instead of the real one: under `python -I -S FILE` nothing can be imported by name, and
    # whatever `hooklatch/__init__.py` may import must not slow down or break a guard.
    package = type(sys)("hooklatch")
    package.__path__ = [package_folder]
    sys.modules["hooklatch"] = package


if __name__ == "__main__":
    _make_importable(__file__.rsplit("/", 2)[0])
    # Nothing here is buffered, and interpreter shutdown would take a fifth of the total time.
    posix._exit(main(sys.argv[1:]))  # pyright: ignore[reportPrivateUsage] - documented as os._exit
