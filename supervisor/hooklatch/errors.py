"""The errors of the client, and the texts of system errors for people.  Imports nothing early.

HooklatchError
├── RefusedError               the decision is a refusal, or needs approval          (in client.protocol)
├── DaemonUnreachableError     nothing listens, or the connection was lost           (also a ConnectionError)
├── RequestFailedError         the daemon answered with an error
├── UnreadableAnswerError      the answer does not follow the protocol
├── InvalidPayloadError        a value cannot be sent as JSON; nothing was sent      (also a ValueError)
└── SessionClosedError         the session was used after its `with` block           (also a RuntimeError)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "DaemonUnreachableError", "HooklatchError", "InvalidPayloadError", "JournalError", "RequestFailedError",
    "SessionClosedError", "UnreadableAnswerError", "describe_error", "explain_error", "format_install_command",
    "locate_error",
]  # fmt: skip


def explain_error(error: BaseException) -> str:
    """Return an error's words, without the number and the path that an OSError begins and ends with."""
    return getattr(error, "strerror", None) or str(error)


def locate_error(error: BaseException) -> str:
    """Return an error's words after the path that it is about, if it is one of the system about a path."""
    place = getattr(error, "filename", None) if isinstance(error, OSError) else None
    path = place.decode(errors="backslashreplace") if isinstance(place, bytes) else place
    return explain_error(error) if path is None else f"{path} cannot be accessed: {explain_error(error)}"


def describe_error(error: BaseException) -> str:
    """Return an error as a message of its own: what happened and where, and of one of the system what to do."""
    if not isinstance(error, OSError):
        return explain_error(error)
    mend = "let the user that runs hooklatch read it" if isinstance(error, PermissionError) else "fix it"
    return f"{locate_error(error)}; {mend}, or remove it"


def format_install_command(wanted: str) -> str:
    """Return the command that installs something where this hooklatch is, which may be an environment of its own."""
    import shlex  # imported here: this module is imported by what must start fast
    import sys
    from importlib.util import find_spec

    python = shlex.quote(sys.executable)
    way = f"{python} -m pip install" if find_spec("pip") is not None else f"uv pip install --python {python}"
    return f"{way} {shlex.quote(wanted)}"


class HooklatchError(Exception):
    """Base class of all errors that the client raises on purpose."""


class DaemonUnreachableError(HooklatchError, ConnectionError):
    """No daemon accepts the request, or the connection was lost before the answer.

    `is_denied`: its socket is there, and for another user.  `is_absent`: of the sockets `tried`, none is there, or no
    process listens on it.
    """

    is_denied = False
    is_absent = False
    tried = ""

    @classmethod
    def at(cls, failures: Sequence[tuple[str, OSError]]) -> DaemonUnreachableError:
        """Return an error that names each path tried and why it failed."""
        tried = " or ".join(f"{error.filename or path} ({explain_error(error)})" for path, error in failures)
        tried = tried or "any known path"
        is_denied = any(isinstance(error, PermissionError) for _, error in failures)
        do = "start one with: hooklatch serve --detach"
        if is_denied:
            do = "it is for another user: become that user, or name the folder of your own daemon with --runtime-dir"
            do += ", or the user of the daemon to accept with --daemon-uid"
        error = cls(f"no daemon is reachable at {tried}; {do}")
        error.is_denied = is_denied
        error.is_absent = all(isinstance(error, FileNotFoundError | ConnectionRefusedError) for _, error in failures)
        error.tried = tried
        return error


class RequestFailedError(HooklatchError):
    """The daemon refused a request.  `name` is the condition in one word, `code` its number."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(code, name, message)
        self.code = code
        self.name = name
        self.message = message

    def __str__(self) -> str:
        return f"the daemon answered {self.name or self.code}: {self.message}"


class UnreadableAnswerError(HooklatchError):
    """The daemon's answer cannot be understood."""


class InvalidPayloadError(HooklatchError, ValueError):
    """A value is not plain finite JSON."""


class SessionClosedError(HooklatchError, RuntimeError):
    """The session is closed; open another one."""


class JournalError(OSError):
    """The journal of shared state cannot be read or written.  The text says why, and what to do."""
