"""Reads the fields of a posted form, which must carry the form key.  Knows requests, not what is asked for."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

from hooklatch.dashboard.web.keys import Keys

__all__ = ["FormError", "read_form"]

MOST_BYTES = 64 * 1024
MOST_FIELDS = 20
TYPE = "application/x-www-form-urlencoded"


class FormError(Exception):
    """A form that is not acted on: the status and what is wrong."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def read_form(request: Request, keys: Keys) -> dict[str, str]:
    """Return the fields, without the form key.

    Raises:
        FormError: it is no form, it is too long, a field stands twice in it, or the form key is missing or wrong.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != TYPE:
        raise FormError(415, f"a form is posted as {TYPE}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise FormError(413, f"the form is longer than {MOST_BYTES} bytes")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict",
                          max_num_fields=MOST_FIELDS)  # fmt: skip
    except ValueError:
        raise FormError(400, "the form cannot be read") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise FormError(400, "a field of the form stands in it twice")
    if not keys.is_form_key(fields.pop("form_key", "")):
        raise FormError(403, "the form is not one of this dashboard, or the dashboard was started again meanwhile")
    return fields
