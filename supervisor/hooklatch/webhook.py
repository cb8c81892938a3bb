"""The program that posts one document: the first line of standard input is the URL, the rest is the JSON.

It is a process of its own, since the daemon has no network code, and is killed by its parent when it takes too long.
The URL is not a part of its command line, which every user of the machine can read.  A redirect is not followed: it
would send the document to a place that the configuration does not name.  Uses the standard library alone.
"""

from __future__ import annotations

import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

__all__ = ["post_document"]

HEADERS = {"Content-Type": "application/json", "User-Agent": "hooklatch"}


def post_document(url: str, document: bytes) -> str:
    """Post a document to an http or https URL; return what went wrong, and "" if the answer has a status of 200 to 299.

    It takes as long as the server likes.
    """
    place = urlsplit(url)
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port)
    try:
        connection.request("POST", f"{place.path or '/'}{'?' * bool(place.query)}{place.query}", document, HEADERS)
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"no answer: {getattr(error, 'strerror', None) or type(error).__name__}"
    finally:
        connection.close()
    if 300 <= status < 400:
        return f"the server answered {status}, and a redirect is not followed: name the place itself"
    return "" if 200 <= status < 300 else f"the server answered {status}"


if __name__ == "__main__":
    first_line, _, rest = sys.stdin.buffer.read().partition(b"\n")
    sys.exit(post_document(first_line.decode(), rest) or 0)
