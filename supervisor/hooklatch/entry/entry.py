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
        why = f"{type(error).__name__}: {error}"
        text = f"Not run: hooklatch's entry in this agent cannot run: {why}. Stop, and tell the user.\n"
        try:
            posix.write(2, text.encode(errors="backslashreplace"))
        except OSError:
            return BLOCK
        return BLOCK


def make_importable(package: str) -> None:
    # Empty packages instead of the real ones: under `python -I -S FILE` nothing can be imported by name, and imports of
    # an `__init__.py` must not slow down or break a guard.
    for name in ("hooklatch", "hooklatch.core", "hooklatch.entry"):
        module = type(sys)(name)
        module.__path__ = [package + name.removeprefix("hooklatch").replace(".", "/")]
        sys.modules[name] = module


if __name__ == "__main__":
    make_importable(__file__.rsplit("/", 2)[0])
    # Nothing here is buffered, and interpreter shutdown would take a fifth of the total time.
    posix._exit(main(sys.argv[1:]))  # pyright: ignore[reportPrivateUsage] - documented as os._exit
