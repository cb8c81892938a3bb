"""Texts about failures: an error with the author's own line, its traceback, and their limits."""

from __future__ import annotations

import os
import time
from types import CodeType, FunctionType, TracebackType
from typing import Literal, cast

__all__ = [
    "MAX_MESSAGE", "MAX_TRACEBACK", "AuthorFrames", "CallFailed", "FailureCause", "clip_error_text",
    "explain_exception", "format_error", "find_innermost", "make_printable", "suggest_whole_save",
]  # fmt: skip

FailureCause = Literal["crash", "timeout", "protocol", "load", "overload"]
JUST_NOW = 10.0  # seconds since a save
MAX_ERROR_TEXT = 2000  # characters of an error message, which may quote a document of megabytes
MAX_MESSAGE = 4096  # characters of an exception's text in its outcome; all of it goes to standard error
MAX_TRACEBACK = 16 * 2**10  # characters of a traceback sent to the daemon
PACKAGES = frozenset({"site-packages", "dist-packages"})  # packages installed below a folder are not its author's
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
NO_ASYNCIO = ("no running event loop", "There is no current event loop", "trio.run received unrecognized yield")
NO_TRIO = ("must be called from async context",)


def suggest_whole_save(path: str, *, is_at_end: bool) -> str:
    """Return what to do about a file that was saved just now and cannot be read at its end; "" for any other."""
    try:
        is_fresh = is_at_end and abs(time.time() - os.stat(path).st_mtime) < JUST_NOW
    except (OSError, ValueError):
        return ""
    return "; it looks half-written: finish it, or write it elsewhere and mv it here in one step" if is_fresh else ""


def clip_error_text(text: str) -> str:
    """Return an error's text, clipped if it is very long."""
    return text if len(text) <= MAX_ERROR_TEXT else f"{text[:MAX_ERROR_TEXT]}…"


def make_printable(text: str) -> str:
    """Return text that is safe to display: without lone surrogates, and without control characters but \\n and \\t."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return shown.translate(CONTROLS)


class CallFailed(Exception):
    """A call returned no verdict; on a gate it becomes a deny with this cause."""

    def __init__(self, cause: FailureCause, message: str) -> None:
        super().__init__(message)
        self.cause: FailureCause = cause
        self.message = message


class AuthorFrames:
    """The test that tells lines of a source's author from those of libraries."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = os.path.join(os.path.dirname(path), "")
        self._is_alone = os.path.basename(os.path.dirname(path)) in PACKAGES  # then its neighbours are other packages

    def wrote(self, file: str) -> bool:
        """Return whether a file is the source itself, or a module below its folder."""
        if file == self._path:
            return True
        below = file.removeprefix(self._folder)
        return below != file and not self._is_alone and not PACKAGES.intersection(below.split(os.sep))

    def place_of(self, error: BaseException) -> tuple[str, int] | None:
        """Return file and line of the innermost frame in the author's code."""
        place = None
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if self.wrote(file):
                place = file, trace.tb_lineno
            trace = trace.tb_next
        return place

    def first_trace(self, error: BaseException) -> TracebackType | None:
        """Return the traceback from the first frame in the author's code on, since its callers do not help the author.

        If there is none, return all of it.
        """
        trace = error.__traceback__
        while trace is not None and not self.wrote(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        return trace or error.__traceback__

    def place_of_function(self, function: object) -> tuple[str, int] | None:
        """Return file and line of a function's definition, if the author wrote it."""
        code: object = getattr(function, "__code__", None)
        if not isinstance(function, FunctionType) or not isinstance(code, CodeType) or not self.wrote(code.co_filename):
            return None
        return code.co_filename, code.co_firstlineno


def explain_exception(error: BaseException, author: AuthorFrames, function: object, runtime: str) -> str:
    """Describe an exception on one line, with the author's line that led to it and a remedy if one is known."""
    cause = find_innermost(error)
    text = format_exception(cause)
    text = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"
    place = author.place_of(cause) or author.place_of(error) or author.place_of_function(function)
    where = f" ({os.path.basename(place[0])}:{place[1]})" if place is not None else ""
    return make_printable(f"{type(cause).__name__}: {text}{where}{suggest_remedy(cause, text, runtime)}")


def find_innermost(error: BaseException) -> BaseException:
    """Return the only exception in a group, such as trio's and asyncio's for a single task; else the group."""
    while isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        if len(inner) != 1:
            return cast("BaseException", error)
        error = inner[0]
    return error


def format_exception(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # its __str__ is also the hook's code
        return "(its text could not be read)"


def suggest_remedy(error: BaseException, text: str, runtime: str) -> str:
    if isinstance(error, SystemExit):
        return '; a guard does not end the process: return deny("why"), or None'
    if not isinstance(error, RuntimeError | TypeError):
        return ""
    if text == "exceptions must derive from BaseException":
        return "; a verdict is returned, and not raised"
    if runtime != "asyncio" and text.startswith(NO_ASYNCIO):
        return '; for asyncio, make it an async def marked with runtime = "asyncio": @hook(..., runtime="asyncio")'
    if runtime == "asyncio" and text.startswith(NO_TRIO):
        return '; for trio, make it an async def marked with runtime = "trio", or with none'
    return ""


def format_error(error: BaseException, author: AuthorFrames) -> tuple[str, str]:
    """Return the traceback of an exception from the author's first line on, and its start and end as sent on."""
    import traceback

    try:
        full_text = "".join(traceback.format_exception(type(error), error, author.first_trace(error)))
    except BaseException:  # its contents are also the hook's code
        full_text = f"{type(error).__name__}: (its traceback could not be read)\n"
    shown_text = make_printable(full_text if len(full_text) <= MAX_TRACEBACK else clip_middle(full_text))
    return full_text, shown_text if len(shown_text) <= MAX_TRACEBACK else clip_middle(shown_text)


def clip_middle(text: str) -> str:
    # Keep more of the end, which shows where the exception was raised.
    cut = "\n… (cut) …\n"
    first = MAX_TRACEBACK // 4
    return f"{text[:first]}{cut}{text[first + len(cut) - MAX_TRACEBACK :]}"
