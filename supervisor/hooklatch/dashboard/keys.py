"""The keys to the pages, for one browser, which came with the token.  Pure but for chance.

    start ─▶ a token, once in the URL ─▶ a cookie, for this process's life ─▶ every form carries the form key too

Any program of any user on this machine can connect to a loopback port.  A cookie is sent to every port of its host, so
another user's server could get it. So the cookie's path is a secret too.
"""

from __future__ import annotations

import hmac
import secrets

__all__ = ["COOKIE", "Keys"]

COOKIE = "hooklatch_dashboard"


class Keys:
    """The secrets of one run of the dashboard on one port."""

    def __init__(self, port: int) -> None:
        self.origins = tuple(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost"))
        self.base = f"/{secrets.token_urlsafe(12)}"
        self.form_key = secrets.token_urlsafe(32)
        self._token: str | None = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        """Return the URL to begin with, which is good for one visit."""
        return f"{self.origins[0]}{self.base}/enter?token={self._token or 'used'}"

    @property
    def cookie(self) -> str:
        """Return the cookie as it is set."""
        return f"{COOKIE}={self._cookie}; Path={self.base}/; HttpOnly; SameSite=Strict"

    def enter(self, token: str) -> bool:
        """Return whether this is the token, which is void after that."""
        if self._token is None or not compare_keys(token, self._token):
            return False
        self._token = None
        return True

    def admits(self, cookies: str) -> bool:
        """Return whether a Cookie header holds our cookie. It may be any of several with its name."""
        pairs = [pair.strip().partition("=") for pair in cookies.split(";")]
        return any(name == COOKIE and compare_keys(value, self._cookie) for name, _, value in pairs)

    def is_form_key(self, key: str) -> bool:
        return compare_keys(key, self.form_key)


def compare_keys(text: str, other: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), other.encode())
