"""One host's log: each record once, whatever batches come in which order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hooklatch.fleet.batches import pack_batch
from hooklatch.fleet.engine.engine import RecordBatch
from hooklatch.fleet.logs.reading import HostLog, RecordMatch, SeenRecords
from support.profiles import examples
from support.shipped import chain

LINES = chain(40)


def batch(lines: list[bytes], *, host: str = "a", epoch: int = 1) -> RecordBatch:
    packed = pack_batch(host, epoch, lines, ("verdict",))
    assert packed is not None
    return RecordBatch(packed.first, packed.last, packed.data)


@st.composite
def overlapping(draw: st.DrawFn) -> list[tuple[int, RecordBatch]]:
    """Draw batches of one record that cover all of it: some twice, overlapping, in any order and two epochs."""
    cuts = sorted(draw(st.sets(st.integers(1, len(LINES) - 1), max_size=6)))
    spans = list(zip([0, *cuts], [*cuts, len(LINES)], strict=True))
    spans += draw(st.lists(st.sampled_from(spans), max_size=4))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(LINES) - 1))
        spans.append((start, draw(st.integers(start + 1, len(LINES)))))
    made = [
        (epoch, batch(LINES[start:end], epoch=epoch))
        for start, end in spans
        for epoch in [draw(st.sampled_from([1, 2]))]
    ]
    return draw(st.permutations(made))


@examples(100)
@given(overlapping())
def test_any_interleaving_of_overlapping_batches_gives_each_record_once(batches: list[tuple[int, RecordBatch]]) -> None:
    log = HostLog("a")

    found = [entry.record.seq for epoch, one in batches for entry in log.take(epoch, one).entries]

    assert sorted(found) == list(range(1, len(LINES) + 1))


@examples(100)
@given(st.lists(st.tuples(st.integers(1, 200), st.sampled_from("ab")), max_size=60))
def test_places_are_a_set_of_numbers_with_their_first_hash(taken: list[tuple[int, str]]) -> None:
    places, model = SeenRecords(), dict[int, str]()

    for seq, letter in taken:
        expected = (
            RecordMatch.NEW if seq not in model else RecordMatch.SAME if model[seq] == letter else RecordMatch.OTHER
        )
        model.setdefault(seq, letter)
        assert places.take(seq, letter * 64, "c" * 64) is expected

    assert [(place.seq, place.hash) for place in places] == sorted((seq, one * 32) for seq, one in model.items())
    assert places.count == len(model)


def test_a_hash_of_zeros_is_seen_again_too() -> None:
    places = SeenRecords()
    places.take(1, "0" * 64, "0" * 64)

    assert places.take(1, "0" * 64, "0" * 64) is RecordMatch.SAME


def test_a_batch_that_cannot_be_read_is_a_finding_and_not_silence() -> None:
    arrival = HostLog("a").take(1, RecordBatch(4, 9, b"torn"))

    assert not arrival.entries
    (finding,) = arrival.findings
    assert (finding.what, finding.seq) == ("unreadable", 4)
    assert "records 4 to 9 of a (epoch 1) cannot be read" in finding.text


def test_a_batch_that_was_copied_from_another_host_is_a_finding() -> None:
    (finding,) = HostLog("b").take(1, batch(LINES, host="a")).findings

    assert "it says that it is 40 records of a" in finding.text


def test_one_number_with_two_records_shows_both_once_and_says_so() -> None:
    log = HostLog("a")
    other = batch(chain(1, body=b'{"verdict":"deny"}'))
    log.take(1, batch(LINES[:1]))

    arrivals = [log.take(1, other), log.take(1, other)]

    assert [len(one.entries) for one in arrivals] == [1, 0]
    assert [finding.what for one in arrivals for finding in one.findings] == ["conflict"]


def test_whose_a_record_is_cannot_be_claimed_in_it() -> None:
    (line,) = chain(1, body=b'{"fleet_host":"b"}')
    packed = pack_batch("a", 1, [line], ("fleet_host",))
    assert packed is not None

    (entry,) = HostLog("a").take(1, RecordBatch(1, 1, packed.data)).entries

    assert entry.document["fleet_host"] == "a"
