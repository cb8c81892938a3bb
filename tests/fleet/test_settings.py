"""The [fleet] table: what a correct one comes to, and what each mistake is called."""

from __future__ import annotations

import base64
import os
import re

import pytest

from hooklatch.fleet.settings import (
    BY_CHOICE,
    DEFAULT_FIELDS,
    RECORD_FIELDS,
    FleetSettings,
    FleetTable,
    describe_open_password,
    read_settings,
)
from hooklatch.record.entries import DecisionEntry
from hooklatch.service.config.configuration import ConfigError, read_config
from support.repository import ROOT
from support.tables import table

PATH = "/h/hooks.toml"
KEY = "ed25519:" + base64.b64encode(b"k" * 32).decode()
TABLE = f'[fleet]\nname = "acme"\nurl = "rediss://engine:6379"\nkeys = ["{KEY}"]\n'
PAGE = (ROOT / "docs" / "guides" / "operating.md").read_text()


def read(text: str) -> FleetSettings | None:
    return read_settings(read_config(PATH, text.encode()).settings.fleet)


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value).removeprefix(PATH)


def test_without_the_table_a_host_is_in_no_fleet() -> None:
    assert read("") is None


def test_a_host_is_called_as_its_machine() -> None:
    assert read(TABLE) == FleetSettings(name="acme", url="rediss://engine:6379", host=os.uname().nodename, keys=(KEY,))


def test_each_key_has_its_place() -> None:
    keys = (
        'log_url = "rediss://logs:6379"\n'
        'user = "h1"\npassword_file = "engine.password"\nca = "/etc/ca.pem"\nhost = "h1"\nlabels = ["ci", "eu", "ci"]\n'
        'max_staleness = "15m"\nwhen_stale = "deny"\nwhen_none = "serve"\nimage = "policy"\n'
        'fields = ["event", "verdict"]\nkeep_unshipped_mib = 0.5\nreconnect = "2s"\nneeds_tests = true\n'
    )

    assert read(TABLE + keys) == FleetSettings(
        name="acme", url="rediss://engine:6379", host="h1", keys=(KEY,), log_url="rediss://logs:6379", user="h1",
        password_file="/h/engine.password", ca="/etc/ca.pem", labels=("ci", "eu"), max_staleness=900.0,
        when_stale="deny", when_none="serve", image="/h/policy", fields=("event", "verdict"),
        keep_unshipped_bytes=2**19, reconnect=2.0, needs_tests=True,
    )  # fmt: skip


@table(
    ("url", "is_open"),
    [
        ("redis://engine", True),
        ("redis://10.0.0.1:6379/2", True),
        ("rediss://engine", False),
        ("redis://localhost", False),
        ("redis://127.0.0.1:6379", False),
        ("redis://[::1]", False),
        ("redis+unix:///run/redis.sock", False),
    ],
)
def test_a_password_that_leaves_the_machine_unencrypted_is_told(url: str, is_open: bool) -> None:
    settings = FleetSettings(name="acme", url=url, host="h1", keys=(KEY,), password_file="/p")

    assert (describe_open_password(settings) is not None) is is_open
    assert describe_open_password(FleetSettings(name="acme", url=url, host="h1", keys=(KEY,))) is None
    logs = FleetSettings(name="acme", url="rediss://engine", host="h1", keys=(KEY,), password_file="/p", log_url=url)
    assert (describe_open_password(logs) is not None) is is_open


@table(
    ("keys", "told"),
    [
        ('log_url = "logs"', ":5: log_url: 'logs' is not a URL of an engine"),
        ('hsot = "h1"', ":5: [fleet] has no key 'hsot'; did you mean 'host'?"),
        ('host = "a b"', ":5: host is a name: at most 63 letters,"),
        ('labels = ["a/b"]', ":5: labels is a list of names, each at most 63 letters,"),
        ("max_staleness = 24", """:5: max_staleness is a duration like "500ms", "90s", "15m" or "24h", not 24"""),
        ('max_staleness = "soon"', ":5: max_staleness: 'soon' is not a duration over 0; write it like 90s,"),
        ('reconnect = "0s"', ":5: reconnect: '0s' is not a duration over 0"),
        ('when_stale = "denie"', ":5: when_stale is one of 'serve', 'deny', not 'denie'; did you mean 'deny'?"),
        ('fields = ["event", "reson"]', ":5: fields: a record has no field 'reson'; did you mean 'reason'?"),
        (
            'fields = ["qqqq"]',
            f":5: fields: a record has no field 'qqqq'; there are {', '.join(RECORD_FIELDS)}",
        ),
        ("keep_unshipped_mib = 0", ":5: keep_unshipped_mib is a number over 0"),
    ],
)
def test_a_wrong_key_is_refused(keys: str, told: str) -> None:
    assert refused(TABLE + keys).startswith(told)


@table(
    ("text", "told"),
    [
        ('[fleet]\nname = "a"', """:1: [fleet] has no url; write url = "rediss://engine.example:6379\""""),
        (TABLE.replace("acme", "a\\n"), ":2: name is a name: "),
        (TABLE.replace("acme", "../a"), ":2: name is a name: "),
        (
            TABLE.replace("engine:", "h:secret@engine:"),
            ":3: url: the URL 'rediss://…@engine:6379' has a password in it: take it out, ",
        ),
        (
            TABLE.replace("rediss://engine", "redis:/h:secret@engine"),
            ":3: url: '…@engine:6379' is not a URL of an engine: it has no scheme; write redis://",
        ),
        (TABLE.replace("engine", "[engine"), ":3: url: 'rediss://[engine:6379' is not a URL of an engine: "),
        (
            TABLE.replace(KEY, "abc"),
            ":4: keys: number 1 is not a public key: it is not ed25519: and 32 bytes in base64",
        ),
        (
            TABLE.replace(f'"{KEY}"', ""),
            ":4: keys has 0 keys; list from 1 to 64 public keys whose signatures this host trusts",
        ),
        (TABLE.replace("[fleet]", "[[fleet]]"), ":1: write [fleet], with one bracket"),
    ],
)
def test_a_wrong_table_is_refused(text: str, told: str) -> None:
    message = refused(text)

    assert message.startswith(told)
    assert "secret" not in message


def test_a_machine_that_has_no_name_of_a_host_is_asked_for_one() -> None:
    with pytest.raises(
        ValueError, match=r"""the machine is called '', which cannot be a host's name: add host = "…" """
    ):
        FleetTable(name="acme", url="redis://engine", keys=(KEY,)).settings("", str)


def test_only_the_main_file_may_hold_it() -> None:
    with pytest.raises(ConfigError, match=r"it belongs in the user's main hooks\.toml"):
        read_config(PATH, TABLE.encode(), ("hook",))


def test_every_field_of_a_decision_is_known_and_no_part_of_a_payload_leaves_by_default() -> None:
    assert {*DecisionEntry.__struct_fields__} <= {*RECORD_FIELDS}
    assert {"excerpt", "excerpt_cut", "patch", "instead", "cwd", "location"} <= {*BY_CHOICE}
    assert not {*BY_CHOICE} & {*DEFAULT_FIELDS}


def test_the_page_shows_each_key() -> None:
    shown = PAGE.partition("\n[fleet]")[2].partition("```")[0]

    assert set(re.findall(r"^(\w+) = ", shown, re.MULTILINE)) == set(FleetTable.__struct_fields__)
