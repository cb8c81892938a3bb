"""Compares the reader of shell texts with real shells, for as long as one likes: `make oracle`, or

    .venv/bin/python tests/guards/oracle/night.py [--minutes N | --texts N] [--seed N] [--to FOLDER]

First the probes of the sandbox and the shapes that are known, then texts of the generator, then directed ones: what the
reader has accepted, mutated on.  Says what came of them, and writes misses, made as short as they can be, to
build/oracle/misses.jsonl; what is there from another time is judged again, and mutated.  Beside it are the texts that
an unknown program alone excuses (excused.jsonl; misses hide there), and those in which shfmt, if it is installed, sees
a program more (doubted.jsonl).  They are data: look at them with an editor, and give none of them to a shell.  Ends
with 1 if something was missed, and with 99 if the sandbox would be weaker than it has to be.
"""

from __future__ import annotations

import argparse
import itertools
import random
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

TESTS = Path(__file__).parent.parent.parent
sys.path.insert(0, str(TESTS))

from guards.oracle.judge import Judge, Miss, Outcome  # noqa: E402  (this file is run as a program, from anywhere)
from guards.oracle.probes import probe  # noqa: E402
from guards.oracle.rule import READINGS, hides  # noqa: E402
from guards.oracle.sandbox import Lacking, Refused, built, lacking  # noqa: E402
from guards.oracle.texts import everyday, generated, mutated, shapes, spliced  # noqa: E402
from guards.oracle.voice import Voice  # noqa: E402

RESULTS = TESTS.parent / "build" / "oracle"
BATCH = 64
MAX_SEEDS = 20_000  # texts that directed ones are made of
MAX_SHORTENED = 200  # misses that are made shorter; of others of a night, there are too many to look at
OUTCOMES = ("shown", "unknown program", "own file", "missed", "nothing ran", "refused")


class Night:
    """One run: what it has counted and missed so far."""

    def __init__(self, judge: Judge, seed: int, *, kept: Iterable[Miss] = (), in_turn: bool = False) -> None:
        self.judge, self.seed, self.in_turn = judge, seed, in_turn
        self.counts: Counter[tuple[str, str]] = Counter()
        self.misses: list[Miss] = []
        self.excused: list[Miss] = []
        self.doubted: list[str] = []
        self.texts = 0
        self.seeds: list[str] = [one.text for one in kept]
        self.pick = random.Random(seed)

    def take(self, outcome: Outcome) -> None:
        """Count what came of a text; one that was accepted and ran something is mutated on."""
        self.texts += 1
        self.counts += outcome.counts
        if outcome.miss is not None:
            self.misses.append(outcome.miss)
        if outcome.excused is not None:
            self.excused.append(outcome.excused)
        if outcome.is_doubted:
            self.doubted.append(outcome.text)
        if outcome.has_run or outcome.is_doubted:
            if len(self.seeds) < MAX_SEEDS:
                self.seeds.append(outcome.text)
            else:
                self.seeds[self.pick.randrange(MAX_SEEDS)] = outcome.text

    def known(self) -> list[str]:
        """Judge the shapes that are known; return the names of those that hide something."""
        hidden = [one.name for one in shapes() if hides(one)]
        for outcome in self.judge.each([*(one.text for one in shapes()), *self.seeds, *everyday()]):
            self.take(outcome)
        return hidden

    def generated(self) -> Iterator[str]:
        for number in itertools.count():
            yield generated(self.seed, number, everyday())

    def directed(self) -> Iterator[str]:
        """Yield what was accepted, mutated on."""
        while True:
            text = self.pick.choice(self.seeds)
            if self.pick.random() < 0.25:
                text = spliced(self.pick, text, self.pick.choice(self.seeds))
            yield mutated(self.pick, text, self.pick.choice((1, 1, 1, 2, 3))).replace("\0", "")[:2000]

    def spend(self, texts: Iterator[str], *, until: float = float("inf"), count: int | None = None) -> None:
        """Judge texts until a moment, or so many."""
        left = count if count is not None else sys.maxsize
        while left > 0 and time.monotonic() < until:
            for outcome in self.judge.each(itertools.islice(texts, min(BATCH, left)), in_turn=self.in_turn):
                self.take(outcome)
            left -= BATCH

    def shortened(self, most: int = MAX_SHORTENED) -> list[Miss]:
        """Return the misses as short as they can be, each once; others of so many stay as they are."""
        found = {
            (one.reading, one.shell, one.text): one for one in map(self.judge.shorter, self.misses[:MAX_SHORTENED])
        }
        return sorted(found.values(), key=lambda one: (len(one.text), one.text, one.reading, one.shell))


def report(night: Night, hidden: list[str]) -> Iterator[str]:
    yield f"{night.texts} texts; {len(night.misses)} missed"
    yield f"{'read as':20}" + "".join(f"{outcome:>16}" for outcome in OUTCOMES)
    for name in READINGS:
        yield f"{name:20}" + "".join(f"{night.counts[name, outcome]:16}" for outcome in OUTCOMES)
    yield f"shfmt sees a program more in {len(night.doubted)} of which no shell ran anything (if it is installed)"
    yield f"known shapes that hide something: {', '.join(hidden) or 'none'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--texts", type=int, help="so many, half of them directed, however long that takes")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--to", type=Path, default=RESULTS)
    wanted = parser.parse_args()
    if reason := lacking():
        print(f"no text is run: {reason}")
        return 99
    print(f"seed {wanted.seed}, {version('bash')}, {version('dash')}", flush=True)
    try:
        return spend_night(wanted)
    except (Lacking, Refused) as error:
        print(f"no text is run any more: {error}")
        return 99


def spend_night(wanted: argparse.Namespace) -> int:
    begun = time.monotonic()
    until = begun + wanted.minutes * 60 if wanted.texts is None else float("inf")
    file: Path = wanted.to / "misses.jsonl"
    kept = [msgspec.json.decode(line, type=Miss) for line in file.read_bytes().splitlines()] if file.exists() else []
    with built() as programs:
        probe(programs)
        with Judge(programs, threads=wanted.threads, voice=Voice.find()) as judge:
            night = Night(judge, wanted.seed, kept=kept)
            hidden = night.known()
            half = None if wanted.texts is None else wanted.texts // 2
            night.spend(night.generated(), until=begun + 0.4 * (until - begun), count=half)
            night.spend(night.directed(), until=until, count=half)
            found = night.shortened()
    write(file, found)
    write(wanted.to / "excused.jsonl", night.excused)
    write(wanted.to / "doubted.jsonl", night.doubted)
    print("\n".join(report(night, hidden)))
    print(f"{time.monotonic() - begun:.0f} s; {len(found)} different misses, made short, are in {file}")
    return 1 if found or hidden else 0


def write(file: Path, rows: Iterable[object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in rows))


def version(shell: str) -> str:
    """Return which shell this machine has, as its package says: dash does not say it itself."""
    done = subprocess.run(["dpkg-query", "-W", shell], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split()) or f"{shell} of this machine"


if __name__ == "__main__":
    sys.exit(main())
