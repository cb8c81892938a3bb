"""The program that an agent starts for each event, by its path: `python -I -S entry.py HOST EVENT --kind K --wait S`.

It is only an entry point: a script run by path is compiled every time, so all code that can be cached is elsewhere.  It
catches every error, those of imports too, since an agent takes exit code 1 for "go on".
"""

import posix
import sys

__all__ = ["main"]

BLOCK = 2  # the only exit code that stops an agent


def main(words: list[str]) -> int:
    """Answer one event from standard input; return the exit code."""
    try:
        from hooklatch.entry.asking import run_entry

        return run_entry(words)
    except BaseException as error:
        text = f"hooklatch: refused: the forwarder cannot run ({type(error).__name__}: {error})\n"
        try:
            posix.write(2, text.encode(errors="backslashreplace"))
        except OSError:
            return BLOCK
        return BLOCK


def make_importable(package: str) -> None:
    # Empty packages instead of the real ones: under `python -I -S FILE` nothing can be imported by name, and imports of
    # an `__init__.py` must not slow down or break a guard.
    for name, folder in (("hooklatch", package), ("hooklatch.entry", f"{package}/entry")):
        module = type(sys)(name)
        module.__path__ = [folder]
        sys.modules[name] = module


if __name__ == "__main__":
    make_importable(__file__.rsplit("/", 2)[0])
    # Nothing here is buffered, and interpreter shutdown would take a fifth of the total time.
    posix._exit(main(sys.argv[1:]))  # pyright: ignore[reportPrivateUsage] - documented as os._exit
