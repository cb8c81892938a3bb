"""The reader of shell texts beside real shells: what ran was shown, or the text was refused.

Slow: some hundreds of texts run, each in a sandbox of its own.  `make oracle` runs as many as one likes.
"""

from __future__ import annotations

import pytest

from guards.oracle.judge import Judge
from guards.oracle.night import RESULTS, Night, write
from guards.oracle.rule import hides
from guards.oracle.sandbox import Built, Sandbox
from guards.oracle.texts import Shape, shapes
from support.tables import table

SEED = 22
GENERATED, DIRECTED = 450, 200  # texts, besides the shapes: some 9 s where nobody else is busy


@table("shape", shapes(), ids=lambda shape: shape.name)
def test_a_shape_that_is_known_is_shown_or_refused(shape: Shape) -> None:
    assert hides(shape) == []


@pytest.mark.slow
@table("shape", shapes(), ids=lambda shape: shape.name)
def test_a_shape_runs_what_it_hides_in_the_shells_that_it_names(sandbox: Sandbox, shape: Shape) -> None:
    words = [word.encode() for word in shape.hides]

    assert all(words in sandbox.run(shell, shape.text.encode()).words for shell in shape.shells)


@pytest.mark.slow
def test_what_ran_was_shown_or_refused(programs: Built) -> None:
    with Judge(programs) as judge:
        night = Night(judge, SEED, in_turn=True)
        night.spend(night.generated(), count=GENERATED)
        night.spend(night.directed(), count=DIRECTED)
        found = night.shortened(3)

    ran = sum(count for (_, outcome), count in night.counts.items() if outcome not in ("refused", "nothing ran"))
    assert ran > 200, "most texts were refused, or ran nothing"
    if found:
        write(RESULTS / f"short-{SEED}.jsonl", night.misses)
    assert not found, f"{len(night.misses)} texts ran what was not shown; they are in {RESULTS}"
