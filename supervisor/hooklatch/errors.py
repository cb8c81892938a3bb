"""The errors of the client.  Knows conditions; imports nothing.

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
    "DaemonUnreachableError",
    "HooklatchError",
    "InvalidPayloadError",
    "RequestFailedError",
    "SessionClosedError",
    "UnreadableAnswerError",
]


class HooklatchError(Exception):
    """Base class of all errors that the client raises on purpose."""


class DaemonUnreachableError(HooklatchError, ConnectionError):
    """No daemon accepts the request, or the connection was lost before the answer."""

    @classmethod
    def at(cls, failures: Sequence[tuple[str, str]]) -> DaemonUnreachableError:
        """Return an error that names each path tried and why it failed."""
        tried = " or ".join(f"{path} ({why})" for path, why in failures) or "any known path"
        return cls(f"no daemon is reachable at {tried}; start one with: hooklatch serve --detach")


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
