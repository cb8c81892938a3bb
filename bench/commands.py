"""What a person waits for at the commands that are asked for most, beside `python -c pass`.

Each command is a whole process, started in turns with the least that its interpreter can do, at a daemon with one
decision on record.  A ratio is that of two medians of processor time of one run: the machine's load moves it little.

Bad would be: any over 3 times `python -c pass`.  tests/cli/test_main.py bounds the modules that each loads.

Run: python bench/commands.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

from contenders import run_daemon
from machine import print_machine, save

LEAST = [sys.executable, "-c", "pass"]
COMMANDS = ("--help", "status", "hooks", "log")
LIMIT = 3.0
WARM = 2


def run(words: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """Start a command; return the milliseconds until it has exited, and those of a processor that it took."""
    actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(words[0], words, environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    took = (time.perf_counter() - began) * 1e3
    if status:
        raise RuntimeError(f"{words} ended with {os.waitstatus_to_exitcode(status)}")
    return took, (usage.ru_utime + usage.ru_stime) * 1e3


def measure(rounds: int) -> list[dict[str, object]]:
    """Return a row for each command."""
    with run_daemon() as daemon:
        client = daemon.connect()
        client.exchange(client.fire_line())
        environ = {**os.environ, "HOOKLATCH_RUNTIME_DIR": f"{daemon.folder}/run", "XDG_STATE_HOME": f"{daemon.folder}"}
        environ.pop("HOOKLATCH_CONFIG", None)
        program = os.path.join(os.path.dirname(sys.executable), "hooklatch")  # as a person starts it
        cases = {"least": LEAST, **{word: [program, word] for word in COMMANDS}}
        cases["log"] = [*cases["log"], "--record", find_record(daemon.folder)]
        times: dict[str, list[tuple[float, float]]] = {case: [] for case in cases}
        for turn in range(rounds + WARM):
            for case, words in cases.items():
                took = run(words, environ)
                if turn >= WARM:
                    times[case].append(took)
    medians = {
        case: (statistics.median(one for one, _ in series), statistics.median(one for _, one in series))
        for case, series in times.items()
    }
    return [
        {
            "command": case, "p50_ms": wall, "processor_ms": spent, "x_p50": wall / medians["least"][0],
            "x": spent / medians["least"][1],
        }
        for case, (wall, spent) in medians.items()
    ]  # fmt: skip


def find_record(folder: str) -> str:
    """Return the folder of the daemon's record."""
    return next(path for path, _, files in os.walk(folder) if any(name.endswith(".jsonl") for name in files))


def main() -> int:
    parser = argparse.ArgumentParser(description="Show what a person waits for at a command.")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, and little more")
    options = parser.parse_args()
    machine = print_machine()
    rows = measure(3 if options.quick else options.rounds)
    print(f"\n{'command':<10}{'p50 ms':>8}{'cpu ms':>8}{'x p50':>8}{'x cpu':>8}")
    for row in rows:
        print(f"{row['command']:<10}{row['p50_ms']:8.1f}{row['processor_ms']:8.1f}{row['x_p50']:8.2f}{row['x']:8.2f}")
    bad = [row for row in rows if float(str(row["x"])) > LIMIT]
    print(f"bad: over {LIMIT:g} times the processor time of `python -c pass`; {len(bad)} are")
    print(f"written: {save('commands_quick' if options.quick else 'commands', {'machine': machine, 'rows': rows})}")
    return 1 if bad and not options.quick else 0


if __name__ == "__main__":
    sys.exit(main())
