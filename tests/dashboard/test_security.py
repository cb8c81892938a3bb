"""Who is kept out of the dashboard, by plain requests to the real process.

Slow: a daemon and a dashboard are processes of their own.
"""

from __future__ import annotations

import re
import socket
from html.parser import HTMLParser
from http.client import HTTPException

import pytest
from h2.connection import H2Connection
from h2.events import ResponseReceived

from support.commands import Place
from support.dashboards import FORM, Visitor, dashboard
from support.tables import table

pytestmark = pytest.mark.slow

PAGES = (
    "/", "/hooks", "/hook?name=global/guards:no_force_push", "/sessions", "/revisions", "/record", "/suspensions",
    "/asks", "/counts", "/report", "/do/reload", "/static/style.css", "/static/live.js", "/static/charts.js",
)  # fmt: skip
FORMS = ("/do/reload", "/do/suspend", "/ask", "/verify")


class Tags(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_token_lets_one_browser_in_and_is_void_then(place: Place) -> None:
    with dashboard(place) as visitor:
        wrong = visitor.send("GET", f"{visitor.base}/enter?token=guessed")
        none = visitor.send("GET", f"{visitor.base}/enter")
        before = visitor.page("/")
        entered = visitor.enter()
        cookie = visitor.cookie
        again = visitor.page("/"), visitor.send("GET", visitor.entrance)
        visitor.cookie = ""
        second = visitor.send("GET", visitor.entrance)
        visitor.cookie = f"{cookie}x"
        forged = visitor.page("/")

    assert (wrong.status, none.status, before.status) == (403, 403, 401)
    assert entered.status == 200
    assert re.fullmatch(
        r"hooklatch_dashboard=[\w-]{43}; Path=/[\w-]{16}/; HttpOnly; SameSite=Strict", entered.headers["set-cookie"]
    )
    assert [one.status for one in again] == [200, 200]  # who has entered may go back to that address
    assert second.status == 403
    assert "set-cookie" not in second.headers
    assert forged.status == 401


@table("path", PAGES)
def test_without_the_cookie_no_page_is_shown(visitor: Visitor, path: str) -> None:
    page = visitor.send("GET", visitor.base + path, headers={"Cookie": ""})

    assert page.status == (200 if path == "/static/style.css" else 401)
    assert "guards" not in page.text


@table("path", PAGES)
def test_every_answer_is_kept_nowhere_and_runs_nothing_from_elsewhere(visitor: Visitor, path: str) -> None:
    page = visitor.page(path)

    policy = page.headers["content-security-policy"]
    assert page.status == 200
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "server" not in page.headers
    if path == "/report":  # a file with its own style, which no browser shows as a page of the dashboard
        assert page.headers["content-disposition"].startswith("attachment;")
        assert visitor.base not in page.text
        return
    for tag, attributes in Tags(page.text).found if path.startswith(("/static",)) is False else ():
        assert tag != "style", path
        assert tag != "script" or attributes["src"]
        assert not [name for name in attributes if name == "style" or name.startswith("on")], (tag, attributes)
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or visitor.base).startswith((visitor.base, "#")), (tag, attributes)


@table(
    ("name", "status"),
    [
        ("localhost:{port}", 200),
        ("127.0.0.1:{port}", 200),
        ("127.0.0.1", 421),
        ("127.0.0.1:1", 421),
        ("evil.example:{port}", 421),
        ("localhost:{port}.evil.example", 421),
        ("[::1]:{port}", 421),
        ("0.0.0.0:{port}", 421),
    ],
)
def test_another_host_than_ours_is_refused(visitor: Visitor, name: str, status: int) -> None:
    """A page whose name was made to mean our address (DNS rebinding) still says its own name."""
    host = name.format(port=visitor.origin.rpartition(":")[2])

    assert visitor.send("GET", f"{visitor.base}/", headers={"Host": host}).status == status


@table(
    "headers",
    [
        {"Origin": ""},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@table("path", FORMS)
def test_a_form_of_another_page_is_refused(visitor: Visitor, path: str, headers: dict[str, str]) -> None:
    assert visitor.post(path, headers, reason="why").status == 403


@table("path", FORMS)
@table("key", ["", "guessed"])
def test_a_form_without_its_key_is_refused(visitor: Visitor, path: str, key: str) -> None:
    assert visitor.post(path, {}, reason="why", form_key=key).status == 403


@table(
    ("body", "content_type", "status"),
    [
        ("reason=a&reason=b", FORM, 400),
        ("%ff=%fe", FORM, 400),
        ("nothing", FORM, 400),
        ("a=b&" * 30, FORM, 400),
        ("reason=" + "x" * 70000, FORM, 413),
        ('{"reason": "why"}', "application/json", 415),
        ("reason=why", "text/plain", 415),
    ],
    ids=str,
)
def test_what_is_no_form_is_refused(visitor: Visitor, body: str, content_type: str, status: int) -> None:
    headers = {"Origin": visitor.origin, "Content-Type": content_type}

    assert visitor.send("POST", f"{visitor.base}/do/reload", body, headers).status == status


@table("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_only_pages_are_read_and_forms_posted(visitor: Visitor, method: str) -> None:
    assert visitor.send(method, f"{visitor.base}/").status == 405


@table(
    "headers",
    [
        {"Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="},
        {"Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA"},
    ],
)
def test_no_other_protocol_is_a_way_in(visitor: Visitor, headers: dict[str, str]) -> None:
    wanted = "Upgrade, HTTP2-Settings" if "HTTP2-Settings" in headers else "Upgrade"
    try:
        page = visitor.send("GET", f"{visitor.base}/", headers={"Cookie": "", "Connection": wanted, **headers})
    except HTTPException:
        return  # it hung up
    assert page.status in (101, 400, 401, 403)
    assert "guards" not in page.text


def test_http_2_is_no_way_in_even_with_the_cookie(visitor: Visitor) -> None:
    """The server speaks it to whoever begins with it (RFC 9113, section 3.3)."""
    connection = H2Connection()
    connection.initiate_connection()
    authority = visitor.origin.removeprefix("http://")
    connection.send_headers(
        1,
        [(":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", f"{visitor.base}/"),
         ("cookie", visitor.cookie)],
        end_stream=True,
    )  # fmt: skip
    status = ""
    with socket.create_connection(("127.0.0.1", int(authority.rpartition(":")[2])), 60) as stream:
        stream.sendall(connection.data_to_send())
        while not status:
            for event in connection.receive_data(stream.recv(2**16)):
                if isinstance(event, ResponseReceived):
                    status = str(dict(event.headers)[b":status"].decode())

    assert status == "505"


@table(
    ("head", "statuses"),
    [
        ("GET {base}/ HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n", (200,)),  # as it should be
        ("GET {base}/ HTTP/1.1\r\nHost: {host}.\r\nCookie: {cookie}\r\n\r\n", (421,)),
        ("GET {base}/ HTTP/1.1\r\nHost: {host}\r\nHost: evil\r\nCookie: {cookie}\r\n\r\n", (400,)),
        ("GET {base}/ HTTP/1.1\r\nHost:\r\n {host}\r\nCookie: x\r\n\r\n", (400, 401, 421)),  # a folded line
        ("GET {base}/ HTTP/1.1\r\nHost: evil\r\n {host}\r\nCookie: {cookie}\r\n\r\n", (400, 421)),
        ("GET {base}/ HTTP/1.0\r\nCookie: {cookie}\r\n\r\n", (505,)),
        ("GET {base}/ HTTP/1.0\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n", (505,)),
        ("GET http://{host}{base}/ HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n", (404,)),
        ("GET http://{host}{base}/ HTTP/1.1\r\nHost: evil\r\nCookie: {cookie}\r\n\r\n", (421,)),
        ("POST {base}/do/reload HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nOrigin: {origin}\r\nOrigin: http://evil\r\n"
         "Content-Length: 0\r\n\r\n", (403,)),
        ("POST {base}/do/reload HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nOrigin: {origin}\r\n"
         "Content-Length: 4\r\nContent-Length: 0\r\n\r\n", (400,)),
        ("POST {base}/do/reload HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nOrigin: {origin}\r\n"
         "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", (400, 501)),
        ("POST {base}/do/reload HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nOrigin: {origin}\r\n"
         "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400, 415)),
    ],
    ids=range(13),
)  # fmt: skip
def test_no_odd_request_passes(visitor: Visitor, head: str, statuses: tuple[int, ...]) -> None:
    host = visitor.origin.removeprefix("http://")
    text = head.format(base=visitor.base, host=host, cookie=visitor.cookie, origin=visitor.origin)
    with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2])), 60) as stream:
        stream.sendall(text.encode())
        first = stream.makefile("rb").readline()

    assert int(first.split()[1]) in statuses


@table("path", ["/static/../doors.py", "/static/%2e%2e/web/keys.py", "/static/..%2fprocess.py", "/../../etc/passwd"])
def test_no_other_file_is_served(visitor: Visitor, path: str) -> None:
    page = visitor.page(path)

    assert page.status in (400, 404)
    assert "import" not in page.text
    assert "root:" not in page.text


def test_whoever_does_not_know_the_path_learns_nothing(visitor: Visitor) -> None:
    page = visitor.send("GET", "/", headers={"Cookie": ""})

    assert page.status == 404
    assert visitor.base not in page.text


def test_nothing_was_done_by_all_this(visitor: Visitor, place: Place) -> None:
    """The last of this file: no refused form has reached the daemon."""
    assert place.json("status")["suspended"] == []
    assert place.run("log", "--kind", "operation").stdout == ""
