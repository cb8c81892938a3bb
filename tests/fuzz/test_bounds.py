"""Memory and time stay in proportion to what is read: no reader multiplies a document, or takes its square."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest

from fuzz.seeds import NASTY, seeds_of
from fuzz.targets import TARGETS
from support.work import work_of

pytestmark = pytest.mark.slow  # every call of a function is counted, or every block of memory

SMALL, LARGE = 2_000, 8_000  # bytes
MAX_RATIO = 8.0  # of work, where the input is 4 times as large: what is quadratic has 16
MAX_MEMORY = 72.0  # bytes a byte: the densest JSON, `[[],[],...]`, is 64 bytes of list for each 3


def repeated(unit: bytes, size: int, before: bytes = b"", after: bytes = b"") -> bytes:
    return before + unit * (size // len(unit)) + after


def numbered(unit: str, size: int, before: str = "", after: str = "", between: str = "") -> bytes:
    count = size // len(unit)
    return (before + between.join(unit % number for number in range(count)) + after).encode()


HOOK = '[[hook]]\nid = "hook-%d"\nevent = "pre_tool_use"\nrun = "guards.py:a"\n'
PERSONALITY = '[personality.p%d]\nplugins = ["a"]\n'
COMMAND = '{"match":"a","command":"exit %d"}'
LARGE_INPUTS: dict[str, list[Callable[[int], bytes]]] = {
    "frames": [lambda n: repeated(b"\0\0\0\1\x90", n), lambda n: repeated(b"\x91", n, b"\0\0\xff\xff")],
    "lines": [lambda n: repeated(b"{}\n", n), lambda n: repeated(b"\n", n), lambda n: repeated(b"[", n)],
    "verdicts": [
        lambda n: repeated(b'"w",', n, b'{"warnings":[', b'"w"]}'),
        lambda n: numbered('"k%d":{}', n, '{"patch":{', "}}", ","),
        lambda n: repeated(b"[", n, b'{"value":'),
        lambda n: repeated(b"[],", n, b'{"value":[', b"[]]}"),
    ],
    "payload": [lambda n: numbered('"k%d":"v"', n, "{", "}", ","), lambda n: repeated(b"\\u00e9", n, b'{"a":"', b'"}')],
    "matchers": [lambda n: repeated(b'"a",', n, b"[", b'"a"]'), lambda n: repeated(b"a|", n)],
    "definitions": [
        lambda n: repeated(b'"stop",', n, b'{"id":"a","run":"a:b","event":[', b'"stop"]}'),
        lambda n: numbered('"k%d":1', n, "{", "}", ","),
        lambda n: numbered('"k%d":1', n, '{"id":"a","run":"a:b","event":"stop","config":{', "}}", ","),
    ],
    "configuration": [
        lambda n: numbered(HOOK, n),
        lambda n: numbered(PERSONALITY, n),
        lambda n: numbered("[[source]]\nmodule = 'm%d'\n", n),
        lambda n: numbered("# %d\n", n),
    ],
    "settings": [lambda n: numbered(COMMAND, n, '{"hooks":{"PreToolUse":[', "]}}", ",")],
    "importing": [lambda n: numbered(COMMAND, n, '{"hooks":{"PreToolUse":[', "]}}", ",")],
    "native": [lambda n: numbered('"k%d":1', n, '{"tool_name":"a",', "}", ",")],
    "host": [lambda n: numbered('"k%d":1', n, '{"hook_event_name":"PreToolUse",', "}", ",")],
    "language_servers": [
        lambda n: repeated(b"Content-Length: 2\r\n\r\n{}", n),
        lambda n: repeated(b"A: b\r\n", n),
        lambda n: repeated(b"%41", n, b"file:///"),
    ],
    "shell_answers": [lambda n: numbered('"k%d":1', n, "{", "}", ","), lambda n: repeated(b" ", n)],
}
CASES = [(name, number) for name, makers in LARGE_INPUTS.items() for number in range(len(makers))]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_work_grows_no_faster_than_what_is_read_by(name: str, number: int) -> None:
    make, target = LARGE_INPUTS[name][number], TARGETS[name]
    target(make(SMALL))  # what is compiled or filled once is there

    small, large = (work_of(partial(target, make(size))) for size in (SMALL, LARGE))

    assert large < MAX_RATIO * max(small, 1000)


def peak_of(name: str, data: bytes) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        TARGETS[name](data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", TARGETS)
def test_memory_stays_in_proportion_to_what_is_read_by(name: str) -> None:
    mixed = random.Random(name)
    noise = [b"".join(mixed.choices([*NASTY, *seeds_of(name)], k=40))[:LARGE] for _ in range(3)]
    documents = [*(make(LARGE) for make in LARGE_INPUTS.get(name, [])), *noise]
    TARGETS[name](documents[0])

    for data in documents:
        taken = peak_of(name, data)
        assert taken < MAX_MEMORY * len(data) + 2**19, f"{taken} bytes for {len(data)}: {data[:60]!r}"
