"""Words of the command line are sent in UTF-8, whatever the locale; what is none is refused, not sent otherwise."""

from __future__ import annotations

import os

import pytest

from hooklatch.cli.commands import build_command_line
from hooklatch.cli.testing.fire import encode_fire_params
from hooklatch.client.protocol.admin_exchange import encode_argument
from hooklatch.errors import InvalidPayloadError


def test_words_are_sent_as_utf8_although_the_locale_could_not_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    read = "näme".encode().decode("ascii", "surrogateescape")
    monkeypatch.setattr("os.fsencode", lambda text: text.encode("ascii", "surrogateescape"))

    assert encode_argument({"id": read, "match": [read, 1, None]}) == {"id": "näme", "match": ["näme", 1, None]}


def test_what_is_no_utf8_is_said_and_a_gate_in_such_a_folder_is_not_asked_about_another() -> None:
    name = os.fsdecode(b"/srv/\xff")
    arguments = build_command_line().parse_args(["fire", "pre_tool_use", "--cwd", name])

    with pytest.raises(InvalidPayloadError, match=r"xff' is not UTF-8, as all names have to be; rename it"):
        encode_fire_params(arguments, b"{}")
