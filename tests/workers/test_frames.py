"""Frames as a stream brings them: whole, in pieces, several at once, and too long ones."""

from __future__ import annotations

import pytest

from hooklatch_worker import wire

FIRST, SECOND = wire.encode_frame(wire.LoadCode(b"first")), wire.encode_frame(wire.LoadCode(b"second"))


def test_a_frame_that_came_whole_leaves_nothing() -> None:
    reader = wire.FrameReader()

    assert reader.take(bytes(FIRST)) == FIRST[4:]
    assert not reader.held
    assert reader.take() is None


@pytest.mark.parametrize("size", [1, 3, 4, 5, 11])
def test_frames_are_the_same_in_pieces_of_any_size(size: int) -> None:
    reader, stream, found = wire.FrameReader(), bytes(FIRST + SECOND + FIRST), list[bytes]()

    for begin in range(0, len(stream), size):
        body = reader.take(stream[begin : begin + size])
        while body is not None:
            found.append(bytes(body))
            body = reader.take()

    assert found == [FIRST[4:], SECOND[4:], FIRST[4:]]
    assert not reader.held


def test_what_came_behind_a_frame_is_held() -> None:
    reader = wire.FrameReader()

    first = reader.take(bytes(FIRST + SECOND[:6]))

    assert (first, bool(reader.held), reader.take()) == (FIRST[4:], True, None)
    assert reader.take(bytes(SECOND[6:])) == SECOND[4:]


def test_a_length_over_the_limit_is_refused_before_the_rest_comes() -> None:
    with pytest.raises(wire.FrameError, match="is over the limit"):
        wire.FrameReader().take((wire.MAX_FRAME + 1).to_bytes(4, "big"))
