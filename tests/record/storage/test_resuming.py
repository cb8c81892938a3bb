"""Where the numbers continue, depending on the end, the anchor and the mark: a table, and then real files."""

from __future__ import annotations

from hooklatch.record.storage.chain import GENESIS
from hooklatch.record.storage.mark import BLOCK, HighWaterMark
from hooklatch.record.storage.recovery import RecordEnd, resume_numbers
from support.tables import table

HASH = "ab" * 32
OTHER = "cd" * 32
SHUT = HighWaterMark(is_closed=True, reserved_through=10_000, seq=60, hash=HASH)
OPEN = HighWaterMark(reserved_through=10_000, seq=60, hash=HASH)


@table(
    ("seq", "anchored", "marked", "goes_on_after", "skipped", "faults"),
    [
        # nothing yet; and a first start that was killed before it had written a record
        (0, None, None, 0, None, []),
        (0, None, HighWaterMark(reserved_through=BLOCK), BLOCK, (1, BLOCK), []),
        (0, (0, GENESIS), HighWaterMark(reserved_through=BLOCK), BLOCK, (1, BLOCK), []),
        # a clean end, and a crash
        (60, (60, HASH), SHUT, 60, None, []),
        (60, (60, HASH), OPEN, 10_000, (61, 10_000), []),
        (75, (60, HASH), OPEN, 10_000, (76, 10_000), []),
        (10_000, (10_000, HASH), OPEN, 10_000, None, []),
        # the end was cut; the anchor as it was, an older one, gone, broken
        (40, (60, HASH), SHUT, 60, None, ["records 41 to 60 are missing"]),
        (40, (30, HASH), SHUT, 60, None, ["records 41 to 60 are missing"]),
        (40, None, SHUT, 60, None, ["the anchor in /r is gone", "records 41 to 60 are missing"]),
        (40, "broken", SHUT, 60, None, ["broken", "records 41 to 60 are missing"]),
        (40, (30, HASH), OPEN, 10_000, (61, 10_000), ["records 41 to 60 are missing"]),
        (0, None, OPEN, 10_000, (61, 10_000), ["the anchor in /r is gone", "records 1 to 60 are missing"]),
        # another record in its place
        (60, (60, OTHER), SHUT, 60, None, ["record 60 in /r differs from the one that its anchor names"]),
        (60, (60, HASH), HighWaterMark(True, 99, 60, OTHER), 60, None, ["its mark names"]),
        # the mark is gone, broken, or older than the record
        (60, (60, HASH), None, 60 + BLOCK, (61, 60 + BLOCK), ["the mark /r.mark is gone"]),
        (0, (60, HASH), None, 60 + BLOCK, (61, 60 + BLOCK), ["mark /r.mark is gone", "records 1 to 60 are missing"]),
        (60, (60, HASH), "broken", 60 + BLOCK, (61, 60 + BLOCK), ["broken"]),
        (0, None, "broken", BLOCK, (1, BLOCK), ["broken"]),
        (61, (61, HASH), SHUT, 61, None, ["were written after its last daemon had ended"]),
        (10_001, (10_001, HASH), OPEN, 10_001, None, ["is beyond the numbers that /r.mark has reserved"]),
        # both are gone
        (40, None, None, 40 + BLOCK, (41, 40 + BLOCK), ["the anchor in /r is gone", "the mark /r.mark is gone"]),
    ],
)  # fmt: skip
def test_where_the_numbers_go_on_and_what_is_told(
    seq: int,
    anchored: tuple[int, str] | str | None,
    marked: HighWaterMark | str | None,
    goes_on_after: int,
    skipped: tuple[int, int] | None,
    faults: list[str],
) -> None:
    found = resume_numbers(RecordEnd("/r", seq, HASH if seq else GENESIS, anchored, marked))

    assert (found.seq, found.skipped) == (goes_on_after, skipped)
    assert len(found.faults) == len(faults), found.faults
    assert all(text in fault for text, fault in zip(faults, found.faults, strict=True)), found.faults
