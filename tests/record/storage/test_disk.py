"""The stages of a disk, by a table of free bytes."""

from __future__ import annotations

import pytest

from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.disk_space import Disk, DiskStage

LIMITS = RecordSettings(low_bytes=1000, critical_bytes=500, full_bytes=100)


@pytest.mark.parametrize(
    ("free", "stages"),
    [
        ([1000, 999, 1000, 1099, 1100], "normal low low low normal"),  # better only a tenth above the limit
        ([499, 500, 549, 550, 1100], "critical critical critical low normal"),
        ([99, 100, 109, 110, 550], "full full full critical low"),
        ([99, 10**9], "full normal"),
        ([10**9, 0, 600, 0], "normal full low full"),
        ([0, 1050, 1100], "full low normal"),
    ],
)
def test_it_gets_worse_at_once_and_better_with_a_margin(free: list[int], stages: str) -> None:
    disk = Disk(LIMITS)

    assert [disk.saw(one).label for one in free] == stages.split()


def test_what_ran_out_stays_full_whatever_is_free_until_an_append_succeeds() -> None:
    disk = Disk(LIMITS)

    seen = [disk.ran_out(), disk.saw(10**9), disk.found_room(10**9)]

    assert seen == [DiskStage.FULL, DiskStage.FULL, DiskStage.NORMAL]
    assert not disk.has_run_out


def test_other_limits_hold_from_the_next_look_on() -> None:
    disk = Disk(LIMITS)
    disk.saw(300)

    disk.set_limits(RecordSettings(low_bytes=10, critical_bytes=10, full_bytes=10))

    assert disk.saw(300) is DiskStage.NORMAL
