"""Versions of a payload: what counts as a change, and what is kept byte for byte."""

import hashlib
import json

import msgspec
import pytest

from hooklatch.core.payload import Payload, PayloadError, canonicalize_json
from support.tables import table

DEEP = b"[" * 100_000 + b"]" * 100_000


def raw(text: str | bytes) -> msgspec.Raw:
    return msgspec.Raw(text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1", "1"),
        ('{"a": 1, "b": [2, 3]}', '{"b":[2,3],"a":1}'),
        ('"é"', r'"\u00e9"'),
        ("1.0", "1.00"),
        ("1e2", "100.0"),
        ("123456789012345678901234567890", " 123456789012345678901234567890"),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
    ],
)
def test_a_patch_of_equal_meaning_keeps_the_version(old: str, new: str) -> None:
    payload = Payload(f'{{"x": {old}}}'.encode())

    assert payload.with_patch({"x": raw(new)}) is payload


@table(
    ("old", "new"),
    [
        ("1", "1.0"),
        ("1", "true"),
        ("0", "false"),
        ("0", "null"),
        ("1", '"1"'),
        ("0.0", "-0.0"),
        ("[1, 2]", "[2, 1]"),
        ("{}", "[]"),
        ("9007199254740993", "9007199254740992"),
        ("123456789012345678901234567890", "123456789012345678901234567891"),
        ("100000000000000000000", "1e20"),
        ('{"a": 1}', '{"a": 1, "b": null}'),
    ],
)
def test_a_patch_of_other_meaning_is_a_new_version(old: str, new: str) -> None:
    payload = Payload(f'{{"x": {old}}}'.encode())

    changed = payload.with_patch({"x": raw(new)})

    assert changed.version == 1
    assert json.loads(changed.data) == {"x": json.loads(new)}


def test_a_key_that_was_absent_is_a_change_even_as_null() -> None:
    assert Payload(b"{}").with_patch({"x": raw("null")}).version == 1


def test_an_empty_patch_changes_nothing() -> None:
    payload = Payload(b'{"x": 1}')

    assert payload.with_patch({}) is payload


def test_what_a_patch_leaves_alone_keeps_its_bytes() -> None:
    payload = Payload(b'{"big": 123456789012345678901234567890, "odd": {"b":1.00,  "a":"\\u00e9"}, "x": 1}')

    changed = payload.with_patch({"x": raw("2")})

    assert b"123456789012345678901234567890" in changed.data
    assert b'{"b":1.00,  "a":"\\u00e9"}' in changed.data


def test_the_version_before_is_not_altered_by_a_patch() -> None:
    payload = Payload(b'{"x": 1}')

    payload.with_patch({"x": raw("2")}).with_patch({"y": raw("3")})

    assert payload.data == b'{"x": 1}'
    assert set(payload.fields) == {"x"}


def test_versions_count_on() -> None:
    assert Payload(b"{}").with_patch({"x": raw("1")}).with_patch({"x": raw("2")}).version == 2


def test_the_digest_is_of_the_exact_bytes() -> None:
    assert Payload(b'{"a":1}').digest() == hashlib.sha256(b'{"a":1}').hexdigest()
    assert Payload(b'{"a": 1}').digest() != Payload(b'{"a":1}').digest()


@table(
    "data",
    [
        b"",
        b"[]",
        b"1",
        b"null",
        b'"x"',
        b"{",
        b'{"a": }',
        b'{"a": NaN}',
        b"{} {}",
        b'{"a": ' + DEEP + b"}",
        b'{"\xff":1}',
    ],
    ids=range(11),
)
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(PayloadError, match="the payload is not a JSON object"):
        Payload(data).fields  # noqa: B018 - reading it is the test


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    assert Payload(b'{"tool_name": "Read", "tool_name": "Bash"}').text("tool_name") == "Bash"


def test_a_key_is_found_however_it_is_spelt() -> None:
    assert Payload(rb'{"tool_n\u0061me": "Bash"}').text("tool_name") == "Bash"


@pytest.mark.parametrize("value", [b"1", b"null", b'["Bash"]', b'"\xff"', b'"\\ud800"'])
def test_a_field_that_is_no_proper_string_has_no_text(value: bytes) -> None:
    try:
        text = Payload(b'{"tool_name": ' + value + b"}").text("tool_name")
    except PayloadError:
        text = None

    assert text is None


def test_an_absent_field_has_no_text() -> None:
    assert Payload(b"{}").text("tool_name") is None


@pytest.mark.parametrize("value", [b"1e999", b'"\xff"', DEEP, b"9" * 5000], ids=range(4))
def test_a_patch_that_is_no_plain_json_is_refused(value: bytes) -> None:
    with pytest.raises(PayloadError, match="a value is not plain JSON"):
        Payload(b'{"x": 1}').with_patch({"x": raw(value)})


def test_a_value_has_one_canonical_spelling() -> None:
    assert canonicalize_json(b' {"b": [1.0, true], "a": "\\u00e9"} ') == '{"a":"é","b":[1.0,true]}'.encode()
