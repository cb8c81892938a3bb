"""Fair queues: which entry is next, which is evicted, and that none is lost."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.core.fair_queue import FAVOURS, FairQueue
from support.profiles import examples
from support.tables import table


def filled(text: str, capacity: int = 100) -> FairQueue[str, str]:
    """Put entries by name: "a1 a2 b1" are two of key a and one of key b."""
    queue: FairQueue[str, str] = FairQueue(capacity)
    for name in text.split():
        assert queue.put(name[0], name) is None
    return queue


def drained(queue: FairQueue[str, str]) -> str:
    taken: list[str] = []
    while (entry := queue.take()) is not None:
        taken.append(entry)
    return " ".join(taken)


@pytest.mark.parametrize(
    ("offered", "served"),
    [
        ("", ""),
        ("a1", "a1"),
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1", "a1 b1 a2 a3"),
        ("a1 a2 b1 b2 c1", "a1 b1 c1 a2 b2"),
        ("a1 a2 a3 a4 b1 b2 c1 c2 c3", "a1 b1 c1 a2 b2 c2 a3 c3 a4"),
    ],
)
def test_keys_take_turns(offered: str, served: str) -> None:
    assert drained(filled(offered)) == served


def test_a_newcomer_goes_before_those_that_were_served() -> None:
    queue = filled("a1 a2 b1 b2")
    assert [queue.take(), queue.take()] == ["a1", "b1"]
    queue.put("c", "c1")

    assert drained(queue) == "c1 a2 b2"


def test_who_comes_again_within_the_round_waits_for_its_turn() -> None:
    queue = filled("a1 a2 b1 b2 c1")
    assert [queue.take() for _ in range(3)] == ["a1", "b1", "c1"]
    queue.put("c", "c2")

    assert drained(queue) == "a2 b2 c2"


def test_who_comes_again_after_a_round_is_a_newcomer() -> None:
    queue = filled("a1 a2 a3 a4 c1")
    assert [queue.take() for _ in range(4)] == ["a1", "c1", "a2", "a3"]
    queue.put("c", "c2")

    assert drained(queue) == "c2 a4"


def test_newcomers_without_end_do_not_starve_the_others() -> None:
    queue = filled("a1 a2")
    assert queue.take() == "a1"
    for number in range(FAVOURS + 2):
        queue.put(f"new {number}", f"n{number}")

    served = drained(queue).split()

    assert served.index("a2") <= FAVOURS


@table(
    ("held", "arriving", "pushed_out"),
    [
        ("a1 a2 a3", "b1", "a3"),
        ("a1 a2 b1", "c1", "a2"),
        ("a1 b1 b2", "c1", "b2"),
        ("a1 a2 a3", "a4", "a4"),
        ("a1 b1 c1", "d1", "d1"),
        ("a1 a2 b1", "b2", "b2"),
        ("a1 a2 a3 b1", "b2", "a3"),
        ("a1 a2 b1 b2", "c1", "b2"),
    ],
)
def test_a_full_queue_makes_room_at_the_longest_line_if_that_is_fairer(
    held: str, arriving: str, pushed_out: str
) -> None:
    queue = filled(held, capacity=len(held.split()))

    assert queue.put(arriving[0], arriving) == pushed_out
    assert set(drained(queue).split()) == {*held.split(), arriving} - {pushed_out}


def test_a_flood_leaves_the_others_their_places() -> None:
    queue: FairQueue[str, int] = FairQueue(100)
    lost: Counter[str] = Counter()
    for number in range(1000):
        if queue.put("flood", number) is not None:
            lost["flood"] += 1
    for key in "abcdefgh":
        for number in range(5):
            assert queue.put(key, number) is not number

    assert lost["flood"] == 900
    assert len(queue) == 100
    assert {key: queue.waiting(key) for key in "abcdefgh"} == dict.fromkeys("abcdefgh", 5)


def test_skipped_keys_keep_their_place() -> None:
    queue = filled("a1 a2 b1 b2")

    assert [queue.take({"a"}), queue.take({"a"}), queue.take({"a"})] == ["b1", "b2", None]
    assert drained(queue) == "a1 a2"


def test_what_is_remembered_behind_a_skipped_key_is_bounded() -> None:
    queue: FairQueue[str, int] = FairQueue(4)
    for number in range(2):
        queue.put("held", number)
    assert queue.take() == 0
    for number in range(1000):
        queue.put(str(number), number)
        assert queue.take({"held"}) == number

    assert len(queue._lines) <= 2 * 4 + 1


def test_an_entry_can_leave_from_anywhere() -> None:
    queue = filled("a1 a2 a3 b1")

    assert queue.remove("a", "a2")
    assert queue.remove("b", "b1")
    assert not queue.remove("b", "b1")
    assert not queue.remove("c", "c1")
    assert drained(queue) == "a1 a3"


@pytest.mark.parametrize(
    ("held", "key", "ahead", "place"),
    [
        ("", "a", 0, 0),
        ("a1 a2 b1", "c", 2, 2),
        ("a1 a2 b1", "a", 3, 3),
        ("a1 b1 b2 b3", "a", 2, 2),
        ("a1 a2 a3 b1", "b", 2, 3),
        ("a1 a2 a3 a4 a5", "b", 1, 1),
    ],
)
def test_it_says_how_many_at_least_would_go_before_one_more(held: str, key: str, ahead: int, place: int) -> None:
    queue = filled(held)

    assert queue.ahead(key) == ahead
    queue.put(key, "more")
    assert drained(queue).split().index("more") == place


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcd")),
        st.tuples(st.just("take"), st.sampled_from(["", "a", "ab"])),
        st.tuples(st.just("remove"), st.integers(0, 8)),
    ),
    max_size=60,
)


@examples(200)
@given(steps=STEPS, capacity=st.integers(1, 6))
def test_whatever_happens_every_entry_leaves_once_in_its_keys_order(
    steps: list[tuple[str, str | int]], capacity: int
) -> None:
    """The oracle is a plain list of lists: it knows what waits, and leaves who is next to the queue."""
    queue: FairQueue[str, tuple[str, int]] = FairQueue(capacity)
    waiting: dict[str, list[tuple[str, int]]] = {key: [] for key in "abcd"}
    for number, (step, what) in enumerate(steps):
        if step == "put":
            key = str(what)
            entry = (key, number)
            longest = max(len(line) for line in waiting.values())
            is_fairer = len(waiting[key]) + 1 < longest
            is_full = len(queue) == capacity
            waiting[key].append(entry)
            out = queue.put(key, entry)
            assert (out is not None) == is_full
            if out is not None:
                assert waiting[out[0]].pop() == out  # the newest of its line
                assert out == entry or len(waiting[out[0]]) + 1 == longest
                assert (out != entry) == is_fairer
        elif step == "take":
            taken = queue.take(set(str(what)))
            free = [line for key, line in waiting.items() if line and key not in str(what)]
            assert (taken is not None) == bool(free)
            if taken is not None:
                assert waiting[taken[0]].pop(0) == taken
        else:
            there = [entry for line in waiting.values() for entry in line]
            if there:
                entry = there[int(what) % len(there)]
                waiting[entry[0]].remove(entry)
                assert queue.remove(entry[0], entry)
        assert len(queue) == sum(map(len, waiting.values())) <= capacity
        assert {key: queue.waiting(key) for key in waiting} == {key: len(line) for key, line in waiting.items()}
        assert queue._longest == max(len(line) for line in waiting.values())
        assert len(queue._lines) <= 2 * capacity + len(waiting)


@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_of_any_lines_each_is_served_as_often_as_the_others_while_it_lasts(lengths: list[int]) -> None:
    queue: FairQueue[int, int] = FairQueue(1000)
    for key, length in enumerate(lengths):
        for _ in range(length):
            queue.put(key, key)
    served: Counter[int] = Counter()

    while (key := queue.take()) is not None:
        served[key] += 1
        unfinished = [served[one] for one, length in enumerate(lengths) if served[one] < length]
        assert not unfinished or max(unfinished) - min(unfinished) <= 2  # of eight newcomers, four wait for a regular

    assert [served[key] for key in range(len(lengths))] == lengths
