"""Readers of bytes that somebody else wrote: only errors of our own come out, whatever goes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.seeds import NASTY, seeds_of, words
from fuzz.targets import TARGETS
from support.profiles import fuzzing

pytestmark = pytest.mark.slow  # dozens of examples each


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """Return a real input with a few places of it replaced: by words of other inputs, by nasty ones, by noise."""
    data = bytearray(draw(st.sampled_from(seeds_of(name))))
    replacement = st.sampled_from(words(name)) | st.sampled_from(NASTY) | st.binary(max_size=8)
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.sampled_from((0, 1, 1, 2, 5, 20, 200)))
        data[start:end] = draw(replacement)
    return bytes(data)


def inputs(name: str) -> st.SearchStrategy[bytes]:
    return mutated(name) | mutated(name) | mutated(name) | st.binary(max_size=200)


@pytest.mark.parametrize("name", TARGETS)
def test_only_errors_of_our_own_come_out_of(name: str) -> None:
    @fuzzing
    @given(inputs(name))
    def run(data: bytes) -> None:
        TARGETS[name](data)

    run()


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_can_be_read_or_is_refused_by(name: str) -> None:
    for data in seeds_of(name):
        TARGETS[name](data)
    for data in NASTY:
        TARGETS[name](data)
