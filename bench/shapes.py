"""What a fire costs by its shape and by what is around it, each beside the plainest one in the same run.

answers    a denial and an amendment against silence
several    2, 5 and 10 hooks that match, each from a source of its own: each is a hop to another worker
chains     1, 2, 5 and 10 hooks of one source that match: one worker could run them all
judges     two hooks of 20 ms that declare that they change nothing (`only_judges`), each of its own source, against
           one; left out of a tree that does not know the word
hooks      10,000 hooks, of which one matches, against one hook
sessions   2,000 idle sessions that subscribed to the registry, and to decisions too, against one session
payloads   1 KiB to 4 MiB, beside the floor, a copy of as many bytes and their sha256

All are fired on kept connections, in interleaved blocks.  Bad would be: a denial or an amendment over 1.3 times
silence; n hooks of several sources over 1.3 times silence plus n - 1 hops of the floor; a chain of one source over 1.3
times silence; two judges over 1.3 times one; 10,000 hooks or 2,000 sessions over 1.1 times one; a payload over 2 times
the floor's time for it plus what the daemon takes for a small one.

Run: python bench/shapes.py [--rounds N] [--quick] [--only answers|judges|hooks|sessions|payloads]
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import msgspec

from contenders import Client, connect, fire_block, run_daemon, run_floor
from machine import Block, Summary, blocks_of, interleave, print_machine, raise_open_files, save, summary

ALIKE, AROUND, PAYLOAD = 1.3, 1.1, 2.0
COUNTS = (2, 5, 10)
MANY_HOOKS, MANY_SESSIONS = 10_000, 2_000
SIZES = {"1 KiB": 2**10, "16 KiB": 2**14, "128 KiB": 2**17, "1 MiB": 2**20, "4 MiB": 2**22}
SILENT, FLOOR = "silence", "floor"
HOOK = """
@hook("pre_tool_use", match={match!r})
def {name}(event):
    return None
"""
QUICK, FIVE = "one quick judge", 2.4
JUDGE = """
import time
from hooklatch import hook

@hook("pre_tool_use", match={match!r}, only_judges=True)
def {name}(event):
    time.sleep(0.02)
"""


class Limit(NamedTuple):
    """What a row's median may be at most: so many times the median of another, and some milliseconds."""

    times: float
    of: str
    more: float = 0.0


Found = dict[str, Summary]


def source(hooks: dict[str, list[str]]) -> str:
    return "from hooklatch import hook\n" + "".join(
        HOOK.format(name=name, match=match) for name, match in hooks.items()
    )


def answers(rounds: int, calls: int) -> tuple[Found, dict[str, Limit]]:
    """Fires of different outcomes and numbers of hooks, in one daemon."""
    chained = {f"chained_{number}": [f"Chain{count}" for count in COUNTS if number < count] for number in range(10)}
    files = {"chain.py": source(chained)}
    for number in range(10):
        tools = [f"Several{count}" for count in COUNTS if number < count]
        files[f"other_{number}.py"] = source({f"other_{number}": tools})
    with run_daemon(workers=2, files=files) as daemon, run_floor() as floor:
        client = daemon.connect()

        def block(tool: str, expected: str = "pass", **tool_input: object) -> tuple[Block, int]:
            return fire_block(client, client.fire_line(tool, **tool_input), expected=expected), calls

        blocks = {
            SILENT: (fire_block(client), calls),
            FLOOR: (fire_block(floor()), calls),
            "a denial": (fire_block(client, deny_line(client), expected="deny"), calls),
            "an amendment": block("Amend", command="make test", timeout=120000),
            **{f"{count} hooks of {count} sources": block(f"Several{count}") for count in COUNTS},
            **{f"{count} hooks of one source": block(f"Chain{count}") for count in COUNTS},
        }
        found = summaries(blocks, rounds)
    hop = found[FLOOR].p50_ms
    limits = {name: Limit(ALIKE, SILENT) for name in ("a denial", "an amendment")}
    for count in COUNTS:
        limits[f"{count} hooks of {count} sources"] = Limit(ALIKE, SILENT, (count - 1) * hop)
        limits[f"{count} hooks of one source"] = Limit(ALIKE, SILENT)
    return found, limits


def deny_line(client: Client) -> bytes:
    return client.fire_line_of({"tool_name": "Bash", "tool_input": {"command": "git push --force"}})


def judges(rounds: int, calls: int) -> tuple[Found, dict[str, Limit]]:
    """Slow hooks that change nothing: the daemon may run them at the same time."""
    matches = {"judge_0": ["Judge1", "Judge2"], "judge_1": ["Judge2"]}
    files = {f"{name}.py": JUDGE.format(name=name, match=match) for name, match in matches.items()}
    for number in range(5):
        tools = ["Quick1", "Quick5"] if number == 0 else ["Quick5"]
        text = JUDGE.format(name=f"quick_{number}", match=tools).replace("time.sleep(0.02)", "return None")
        files[f"quick_{number}.py"] = text
    with run_daemon(workers=2, files=files) as daemon:
        client = daemon.connect()
        few = max(2, calls // 10)
        blocks = {
            "one judge": (fire_block(client, client.fire_line("Judge1")), few),
            "two judges": (fire_block(client, client.fire_line("Judge2")), few),
            QUICK: (fire_block(client, client.fire_line("Quick1")), calls),
            "five quick judges of five files": (fire_block(client, client.fire_line("Quick5")), calls),
        }
        limits = {"two judges": Limit(ALIKE, "one judge"), "five quick judges of five files": Limit(FIVE, QUICK)}
        return summaries(blocks, rounds), limits


def hooks(rounds: int, calls: int, many: int) -> tuple[Found, dict[str, Limit]]:
    """One daemon with one hook more than the bench's own, and one with very many."""
    others = {f"other_{number}": [f"Tool{number}"] for number in range(many)}
    with ExitStack() as stack:
        blocks: dict[str, tuple[Block, int]] = {}
        for name, files in (("one hook", {}), (f"{many} hooks", {"others.py": source(others)})):
            daemon = stack.enter_context(run_daemon(files=files))
            blocks[name] = (fire_block(daemon.connect()), calls)
        return summaries(blocks, rounds), {f"{many} hooks": Limit(AROUND, "one hook")}


def sessions(rounds: int, calls: int, many: int) -> tuple[Found, dict[str, Limit]]:
    """One daemon with one session, and two with many idle ones."""
    topics = {
        f"{many} sessions subscribed to the registry": ["registry"],
        f"{many} sessions subscribed to decisions too": ["registry", "decisions"],
    }
    idle: list[Client] = []
    with ExitStack() as stack:
        blocks = {"one session": (fire_block(stack.enter_context(run_daemon()).connect()), calls)}
        for name, subscribed in topics.items():
            daemon = stack.enter_context(run_daemon())
            for _ in range(many):
                idle.append(one := connect(daemon.agent))
                stack.callback(one.close)
                one.call("subscribe", topics=subscribed)
            blocks[name] = (fire_block(daemon.connect()), calls)
        return summaries(blocks, rounds), dict.fromkeys(topics, Limit(AROUND, "one session"))


def payloads(rounds: int, calls: int, sizes: dict[str, int]) -> tuple[Found, dict[str, Limit]]:
    """Fires with a long text in an opaque field, and what has to be done with as many bytes at the least."""
    with run_daemon() as daemon, run_floor() as floor:
        client, relay = daemon.connect(), floor()
        blocks: dict[str, tuple[Block, int]] = {"a small one": (fire_block(client), calls)}
        for name, size in sizes.items():
            line = client.fire_line_of(payload_of(size))
            few = max(3, calls // (1 + size // 2**14))
            blocks[f"{name}, daemon"] = (fire_block(client, line), few)
            blocks[f"{name}, floor"] = (fire_block(relay, line), few)
            blocks[f"{name}, copied"] = (blocks_of(copying(line)), few)
            blocks[f"{name}, sha256"] = (blocks_of(hashing(line)), few)
        found = summaries(blocks, rounds)
    small = found["a small one"].p50_ms
    return found, {f"{name}, daemon": Limit(PAYLOAD, f"{name}, floor", small) for name in sizes}


def payload_of(size: int) -> dict[str, object]:
    text = "".join(f"line {number} of a file that an agent writes\n" for number in range(1 + size // 40))[:size]
    return {"tool_name": "Bash", "tool_input": {"command": "tee notes.txt", "content": text}}


def copying(data: bytes) -> Callable[[], object]:
    return lambda: bytes(bytearray(data))  # two copies: in and out


def hashing(data: bytes) -> Callable[[], object]:
    return lambda: hashlib.sha256(data).digest()


def summaries(blocks: dict[str, tuple[Block, int]], rounds: int) -> Found:
    return {name: summary(took) for name, took in interleave(blocks, rounds).items()}


def show(title: str, found: Found, limits: dict[str, Limit]) -> list[str]:
    """Print a table; return the names of what is bad."""
    base = next(iter(found.values())).p50_ms
    print(f"\n{title:<44}{'p50 ms':>10}{'p99 ms':>10}{'x first':>9}  bad would be")
    bad: list[str] = []
    for name, row in found.items():
        said = ""
        if limit := limits.get(name):
            most = limit.times * found[limit.of].p50_ms + limit.more
            said = f"over {most:.3f} ms: {limit.times:g} x {limit.of!r}" + (
                f" + {limit.more:.3f}" if limit.more else ""
            )
            if row.p50_ms > most:
                bad.append(name)
                said += "  BAD"
        print(f"{name:<44}{row.p50_ms:10.3f}{row.p99_ms:10.3f}{row.p50_ms / base:9.2f}  {said}")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare fires of different shapes, and in different surroundings.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, not how fast")
    parser.add_argument("--only", default="", help="the tables whose name holds this")
    options = parser.parse_args()
    raise_open_files()
    rounds, calls, many, open_sessions, sizes = options.rounds, 100, MANY_HOOKS, MANY_SESSIONS, SIZES
    if options.quick:
        rounds, calls, many, open_sessions = 1, 4, 100, 20
        sizes = dict([*SIZES.items()][:2])
    tables: dict[str, Callable[[], tuple[Found, dict[str, Limit]]]] = {
        "answers": lambda: answers(rounds, calls),
        "judges": lambda: judges(rounds, calls),
        "hooks": lambda: hooks(rounds, calls, many),
        "sessions": lambda: sessions(rounds, calls, open_sessions),
        "payloads": lambda: payloads(rounds, calls, sizes),
    }
    machine = print_machine()
    found: dict[str, Found] = {}
    bad: list[str] = []
    for name, measure in tables.items():
        if options.only in name:
            found[name], limits = measure()
            bad += show(name, found[name], limits)
    record = {"machine": machine, "rounds": rounds, "tables": msgspec.to_builtins(found), "bad": bad}
    print(f"written: {save('shapes_quick' if options.quick else 'shapes', record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
