"""JSON that parsers may read differently is detected, and nothing else; compared with a slow and exact parser."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch_worker.author import verdicts
from hooklatch_worker.author.ambiguity import MAX_NAMED, find_ambiguity
from support.profiles import fuzzing
from support.tables import table


def repeats(data: bytes) -> bool:
    """Say exactly, and slowly, whether a key occurs twice in one object."""
    found: list[bool] = []
    json.loads(data, object_pairs_hook=lambda pairs: found.append(len(dict(pairs)) < len(pairs)))
    return any(found)


KEYS = ["a", "b", ":", "a:", "\\", '"', "\\u003a", "é", "\U0001f600", ""]
texts = st.sampled_from(KEYS) | st.text(st.sampled_from(':\\"u003aAé\n\t/{},'), max_size=12)


@st.composite
def written(draw: st.DrawFn, text: str) -> bytes:
    """Write a string with some of its characters escaped, each as JSON may have it."""
    parts: list[str] = []
    for character in text:
        plain = json.dumps(character, ensure_ascii=False)[1:-1]
        code = json.dumps(character)[1:-1] if ord(character) > 0xFFFF else f"\\u{ord(character):04x}"
        upper = code if ord(character) > 0xFFFF else f"\\u{ord(character):04X}"
        parts.append(draw(st.sampled_from((plain, plain, code, upper))))
    return b'"' + "".join(parts).encode() + b'"'


spaces = st.sampled_from((b"", b"", b" ", b"\n\t "))
scalars = st.sampled_from((b"1", b"-0.5e3", b"true", b"null", b"{}", b"[]"))
strings = texts.flatmap(written)


def nested(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    entries = st.tuples(strings, spaces, inner).map(lambda entry: entry[0] + entry[1] + b":" + entry[1] + entry[2])
    joined: Callable[[list[bytes]], bytes] = b",".join
    objects = st.lists(entries, max_size=4).map(lambda parts: b"{" + joined(parts) + b"}")
    return objects | objects | st.lists(inner, max_size=3).map(lambda parts: b"[" + joined(parts) + b"]")


documents = st.recursive(scalars | strings, nested, max_leaves=12)


@pytest.mark.slow  # some hundred examples
@fuzzing
@given(documents)
def test_a_key_that_stands_twice_is_found_wherever_it_is_and_nothing_else(data: bytes) -> None:
    assert (find_ambiguity(data) is not None) == repeats(data), data


@table(
    ("data", "told"),
    [
        (b'{"a":1,"a":1}', "the key 'a' occurs twice in one object"),
        (b'{"x":[{"command":"ls","comm\\u0061nd":"rm"}]}', "the key 'command' occurs twice"),
        (b'{"a":"\\u003a","a":2}', "the key 'a'"),
        (b'{"a":"\\\\u003a","a":2}', "the key 'a'"),
        (b'{"a":"\\\\\\u003A","a":2}', "the key 'a'"),
        (b'{"\\u003a":1,":":2}', "the key ':'"),
        (b'{"a":1,"a":"' + b"x" * MAX_NAMED + b'"}', "a key occurs twice"),
        (b'{"a":1e999}', "out of range"),
        (b"[" * 5000 + b"]" * 5000, "nested too deep"),
        (b'{"a":1', "truncated"),
        (b'{"a":"\xed\xa0\x80"}', "8"),  # "UTF-8" or "utf-8": versions of msgspec differ
    ],
)
def test_what_could_be_read_in_two_ways_says_why(data: bytes, told: str) -> None:
    assert told in str(find_ambiguity(data))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":{"a":1},"b":[{"a":1},{"a":1}]}', b'{"a":"\\u003a"}', b'{"a":"\\\\u003a"}', b'{"a":"\\\\\\u003A:"}',
        b'{"n":123456789012345678901234567890}', b"null", b'":"', b'{"a": 1, "b": 1E2}', b'\n{"a":"\\/"}\t',
    ],
)  # fmt: skip
def test_what_everybody_reads_alike_is_not_complained_of(data: bytes) -> None:
    assert find_ambiguity(data) is None


@pytest.mark.parametrize(
    "answer",
    [
        b'{"verdict":"deny","reason":"no","verdict":"allow"}',
        b'{"patch":{"tool_input":{"command":"ls","command":"rm"}}}',
        b'{"patch":{"tool_input":{},"tool_input":{"command":"rm"}}}',
        b'{"verdict":"claim","value":{"a":1,"a":2}}',
        b'{"context":{"a":1,"a":2}}',
        b'{"patch":{"tool_input":{"n":1e999}}}',
    ],
)
def test_an_answer_that_could_be_read_in_two_ways_is_garbage(answer: bytes) -> None:
    with pytest.raises(verdicts.GarbageError, match=r"occurs twice|out of range"):
        verdicts.decode_answer(answer)


def test_what_python_answers_has_each_key_once() -> None:
    patch: dict[str, Any] = {"a:": {"\\u003a": 1, ":": 2}, "a": [{"b": 1}, {"b": 1}]}

    encoded = verdicts.encode_verdict(verdicts.amend(**patch))

    assert find_ambiguity(encoded) is None
    assert verdicts.decode_answer(encoded).patch is not None
