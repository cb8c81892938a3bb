"""A dashboard as a real process, and a visitor of it that sends plain requests."""

from __future__ import annotations

import html
import json
import re
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from support.commands import PATIENCE, Place, Started

__all__ = ["FORM", "Page", "Visitor", "dashboard", "shown", "until"]

FORM = "application/x-www-form-urlencoded"


class Page(NamedTuple):
    """An answer: its status, its headers by names in lower case, and its text."""

    status: int
    headers: Mapping[str, str]
    text: str


class Visitor:
    """Somebody who was given the address; `enter` makes a browser of it that may see the pages."""

    def __init__(self, url: str, process: Started) -> None:
        self.url = url
        self.process = process
        parts = urlsplit(url)
        self.origin = f"http://{parts.netloc}"
        self.base = parts.path.removesuffix("/enter")
        self.cookie = ""
        self._port = parts.port
        self.entrance = f"{parts.path}?{parts.query}"

    def enter(self) -> Page:
        page = self.send("GET", self.entrance)
        self.cookie = page.headers.get("set-cookie", "").partition(";")[0]
        return page

    def send(self, method: str, target: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> Page:
        """Send one request as it is; a header that is empty is left out."""
        connection = HTTPConnection("127.0.0.1", self._port or 0, timeout=60)
        given = {"Cookie": self.cookie, **(headers or {})}
        try:
            connection.putrequest(method, target, skip_host="Host" in given, skip_accept_encoding=True)
            for name, value in given.items():
                if value:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body.encode())))
            connection.endheaders(body.encode() if body is not None else None)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Page(answer.status, found, answer.read().decode())
        finally:
            connection.close()

    def page(self, path: str) -> Page:
        """Read a page below the dashboard's own path."""
        return self.send("GET", self.base + path)

    def form_key(self) -> str:
        """Return the key that a page's form carries."""
        return self.page("/do/reload").text.partition('name="form_key" value="')[2].partition('"')[0]

    def post(self, path: str, headers: Mapping[str, str] | None = None, /, **fields: str) -> Page:
        """Post a form as a browser does; `headers` replace those of a browser."""
        own = {"Origin": self.origin, "Content-Type": FORM, "Sec-Fetch-Site": "same-origin", **(headers or {})}
        return self.send("POST", self.base + path, urlencode({"form_key": self.form_key(), **fields}), own)


def shown(visitor: Visitor, path: str) -> str:
    """Return a page as it is read: without its tags, and with single spaces."""
    page = visitor.page(path)
    assert page.status == 200, page.text
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", page.text)).split())


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; only a failing test waits long."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it never was so"
        select.select([], [], [], 0.01)


@contextmanager
def dashboard(place: Place) -> Iterator[Visitor]:
    """Run a dashboard; it ends well when it is told to."""
    process = place.begin("dashboard", "--json")
    line = process.line()
    assert line, process.end()
    try:
        yield Visitor(json.loads(line)["url"], process)
    finally:
        process.signal(signal.SIGTERM)
        code, _, said = process.end()
    assert (code, said) == (0, ""), said
