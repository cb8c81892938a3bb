"""The small charts, as SVG that is made here: the page has no script that draws, and no style.  Pure.

Each has a text beside it with the same values, so the pictures are hidden from screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from hooklatch.core.status_answers import HookTimings

__all__ = ["draw_columns", "draw_range_bar"]

LOW, HIGH = 0.1, 60_000.0  # milliseconds at both ends of a range bar
WIDTH, HEIGHT = 140, 16
COLUMNS, TALL = 60, 48
STEP = 5


def draw_range_bar(timings: HookTimings) -> Markup:
    """Return a bar from the shortest to the longest of the latest calls. Its thick part is from p50 to p99.

    The scale is logarithmic, the same for all hooks: 0.1 ms at the left, 60 s at the right.
    """
    values = (timings["min_ms"], timings["p50_ms"], timings["p99_ms"], timings["max_ms"])
    known = [scale_position(value) for value in values if value is not None]
    if len(known) != len(values):
        return Markup("")
    first, middle, late, last = known
    ticks = "".join(
        f'<line class="tick" x1="{scale_position(ms):.1f}" x2="{scale_position(ms):.1f}" y1="1" y2="15"/>'
        for ms in (1, 10, 100, 1000)
    )
    thick = max(late - middle, 2)
    return Markup(
        f'<svg class="range" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'{ticks}<line class="reach" x1="{first:.1f}" x2="{max(last, first + 1):.1f}" y1="8" y2="8"/>'
        f'<rect class="most" x="{middle:.1f}" y="4" width="{thick:.1f}" height="8" rx="2"/></svg>'
    )  # fmt: skip


def scale_position(ms: float) -> float:
    bounded = min(max(ms, LOW), HIGH)
    return WIDTH * math.log(bounded / LOW) / math.log(HIGH / LOW)


def draw_columns(counts: Sequence[tuple[int, int]]) -> Markup:
    """Return one column for each interval, oldest first: calls, and in another colour the failed ones."""
    intervals = list(counts)[-COLUMNS:]
    maximum = max((calls for calls, _ in intervals), default=0)
    if not maximum:
        return Markup("")
    width = COLUMNS * STEP
    parts: list[str] = []
    for number, (calls, failed) in enumerate(intervals, COLUMNS - len(intervals)):
        for count, kind in ((calls, "calls"), (min(failed, calls), "failed")):
            if count > 0:
                tall = max(count / maximum * TALL, 1.5)
                parts.append(
                    f'<rect class="{kind}" x="{number * STEP}" y="{TALL - tall:.1f}" width="{STEP - 1}"'
                    f' height="{tall:.1f}"/>'
                )
    return Markup(
        f'<svg class="columns" width="{width}" height="{TALL}" viewBox="0 0 {width} {TALL}" aria-hidden="true">'
        f'{"".join(parts)}</svg>'
    )  # fmt: skip
