"""The access control of every request, the keys for it, and the headers of every response.

    start ─▶ a token, once in the URL ─▶ a cookie, for this process's life ─▶ every form carries the form key too

    HTTP/1.1? ─▶ this host and port? ─▶ our own path? ─▶ not from another site? ─▶ GET, or POST from our own page?
    ─▶ the cookie?

Each step refuses a request without proof.  A page that a browser was made to load from elsewhere has another Origin, or
another Host (DNS rebinding: its name, though the address is ours), and no Strict cookie.

Any program of any user on this machine can connect to a loopback port.  A cookie is sent to every port of its host, so
another user's server could get it. So the cookie's path is a secret too.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Keys", "AccessControl"]

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


POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
    "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types hooklatch",
))  # fmt: skip
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # Not no-referrer: with that, browsers send `Origin: null` with our own forms (Fetch standard, "append a request
    # `Origin` header").
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
ENTRANCE = "/enter"
PUBLIC = "/static/style.css"  # so that a refusal can be read; it says nothing of the daemon
MAX_PATH = 4096
VERSION = "1.1"


class Refusal(msgspec.Struct, frozen=True):
    """A response instead of the page: its status, its reason, and the remedy."""

    status: int
    what: str
    do: str


STRANGER = Refusal(421, "this address is not the dashboard's", "open the address that `hooklatch dashboard` printed")
ELSEWHERE = Refusal(403, "this request came from another page", "open the dashboard itself")
NO_ENTRY = Refusal(
    401,
    "this browser has not entered",
    "open the address that `hooklatch dashboard` printed; it is good for one visit, so after that start it again",
)
NOWHERE = Refusal(404, "there is no such page", "open the address that `hooklatch dashboard` printed")
# The server speaks HTTP/2 to a client that begins with it, and has no switch for that. No browser does so without TLS.
NO_VERSION = Refusal(505, "the dashboard speaks HTTP/1.1 alone", "open the address in a browser")
NO_METHOD = Refusal(405, "a page is read, and a form is posted", "go back, and use the page's own forms")


def find_refusal(method: str, path: str, headers: Mapping[str, Sequence[str]], keys: Keys) -> Refusal | None:
    """Return the refusal of a request, or None if a page may see it.  Headers are by their names in lower case."""
    if len(headers.get("host", ())) != 1 or f"http://{headers['host'][0]}" not in keys.origins:
        return STRANGER
    if not path.startswith(f"{keys.base}/") or len(path) > MAX_PATH:
        return NOWHERE
    place = path.removeprefix(keys.base)
    is_entrance = place == ENTRANCE and method == "GET"
    sites = headers.get("sec-fetch-site", ())
    if not is_entrance and any(site not in ("same-origin", "none") for site in sites):
        return ELSEWHERE
    if method == "POST":
        # A browser sends its Origin with every post. A post without one is not from our forms.
        if list(headers.get("origin", ())) != [f"http://{headers['host'][0]}"]:
            return ELSEWHERE
    elif method != "GET":
        return NO_METHOD
    if is_entrance or (place == PUBLIC and method == "GET"):
        return None
    return None if keys.admits("; ".join(headers.get("cookie", ()))) else NO_ENTRY


class AccessControl:
    """The middleware before an application: it sends refusals, and adds the headers to every response."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [(name, value) for name, value in message.get("headers", []) if name.decode() not in HEADERS]
                message["headers"] = [*given, *((name.encode(), value.encode()) for name, value in HEADERS.items())]
            await send(message)

        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        is_known = scope["http_version"] == VERSION
        refusal = find_refusal(scope["method"], scope["path"], headers, self._keys) if is_known else NO_VERSION
        if refusal is not None:
            await send_refusal(refusal, self._keys.base, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)


async def send_refusal(refusal: Refusal, base: str, send: Send) -> None:
    """Send a refusal.  Its page does not show our secret path to a client that does not know it."""
    style = f'<link rel="stylesheet" href="{base}{PUBLIC}">' if refusal is NO_ENTRY or refusal is ELSEWHERE else ""
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Refused</title>{style}'
        f"<main><h1>Refused</h1><p>{escape(refusal.what.capitalize())}.</p><p>{escape(refusal.do.capitalize())}.</p>"
        "</main></html>"
    ).encode()
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(page)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": page})
