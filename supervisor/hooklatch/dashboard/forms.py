"""The reader of posted forms, which must carry the form key."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

from hooklatch.dashboard.keys import Keys

__all__ = ["FormError", "read_form"]

MAX_BYTES = 64 * 1024
MAX_FIELDS = 20
TYPE = "application/x-www-form-urlencoded"


class FormError(Exception):
    """A form is refused, with a status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def read_form(request: Request, keys: Keys) -> dict[str, str]:
    """Return the fields, without the form key.

    Raises:
        FormError: it is not a form, it is too long, it has a field twice, or the form key is missing or wrong.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != TYPE:
        raise FormError(415, f"a form is posted as {TYPE}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise FormError(413, f"the form is longer than {MAX_BYTES} bytes")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict",
                          max_num_fields=MAX_FIELDS)  # fmt: skip
    except ValueError:
        raise FormError(400, "the form cannot be read") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise FormError(400, "the form has a field twice")
    if not keys.is_form_key(fields.pop("form_key", "")):
        raise FormError(
            403, "the form is not one of this dashboard, or the dashboard was restarted; open the page again"
        )
    return fields
