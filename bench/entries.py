"""What an agent waits for at each event: the forms of the entry, started as hosts start them.

Hosts give the command to a shell (`sh -c LINE`: Codex, Gemini CLI, Qwen Code, Copilot CLI, Cursor, and Claude Code's
`command`), or start it themselves (Claude Code's `command` with `args`).  Each form is started in both ways, in turns
with what is the least in its language, `python -I -S -c pass` and `/bin/true`, and with a hook in Python that says
nothing, which is what a host starts without hooklatch.  It gets one recorded event on a pipe
and asks a socket that answers at once, or a daemon with a Python gate; the time is until it has exited.

Bad would be: the Python form over 1.25 times `python -I -S -c pass`, the C form over twice `/bin/true` or over a fifth
of that hook, against the socket that answers at once; a ratio is that of two medians of one run.

Run: python bench/entries.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable

from contenders import run_daemon
from hooklatch.entry.building import BuildError, build_program
from hooklatch.entry.commands import Form, make_entry_command
from machine import ROOT, print_machine, save, summary

EVENT = ROOT / "tests" / "data" / "claude-code-2.1.330" / "PreToolUse.jsonl"
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"exit_code":0,"stdout":"","stderr":""}}\n'
LEAST: dict[Form, list[str]] = {"python": [sys.executable, "-I", "-S", "-c", "pass"], "c": ["/bin/true"]}
LIMITS: dict[Form, float] = {"python": 1.25, "c": 2.0}
HOOK_LIMIT = 0.2  # of the C form, beside a hook in Python
HOOK = "import json, sys\njson.load(sys.stdin)\n"
WAYS: dict[str, Callable[[list[str]], list[str]]] = {
    "itself": lambda words: words,
    "sh -c": lambda words: ["/bin/sh", "-c", shlex.join(words)],
}
WARM = 3


def answer_at(path: str) -> None:
    """Answer each line there for ever, in a thread: what remains is the cost of the entry."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                while not connection.recv(2**16).endswith(b"\n"):
                    continue
                connection.sendall(ANSWER)

    threading.Thread(target=answer, daemon=True).start()


def milliseconds(words: list[str], document: bytes) -> float:
    """Start a command with the document on a pipe; return the time until it has exited."""
    reader, writer = os.pipe()
    os.write(writer, document)
    os.close(writer)
    actions = [(os.POSIX_SPAWN_DUP2, reader, 0)]
    began = time.perf_counter()
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    took = (time.perf_counter() - began) * 1e3
    os.close(reader)
    if status:
        raise RuntimeError(f"{shlex.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return took


def measure(rounds: int) -> list[dict[str, object]]:
    """Return a row for each way and form."""
    document = EVENT.read_bytes().splitlines()[0]
    with tempfile.TemporaryDirectory() as folder, run_daemon() as daemon:
        answer_at(f"{folder}/agent.sock")
        folders = {"at once": folder, "daemon": f"{daemon.folder}/run"}
        cases: dict[tuple[str, Form, str], list[str]] = {}
        with open(f"{folder}/hook.py", "w") as file:
            file.write(HOOK)
        for way, started in WAYS.items():
            cases[way, "python", "hook"] = started([sys.executable, f"{folder}/hook.py"])
            for form, least in LEAST.items():
                cases[way, form, "least"] = started(least)
                for what, place in folders.items():
                    words = make_entry_command("claude-code", "PreToolUse", "gate", 60, runtime_dir=place)
                    if form == "c":
                        try:
                            words[: words.index("claude-code")] = [str(build_program(folder))]
                        except BuildError as error:
                            print(f"left out: {error}")
                            continue
                    cases[way, form, what] = started(words)
        times: dict[tuple[str, Form, str], list[float]] = {case: [] for case in cases}
        for turn in range(rounds + WARM):
            for case, words in cases.items():
                took = milliseconds(words, document)
                if turn >= WARM:
                    times[case].append(took)
    found = {case: summary(series) for case, series in times.items()}
    return [
        {
            "way": way, "form": form, "answered": what, "p50_ms": one.p50_ms, "best_ms": one.best_ms,
            "x": one.p50_ms / found[way, form, "least"].p50_ms,
            "x_best": one.best_ms / found[way, form, "least"].best_ms,
            "x_hook": one.p50_ms / found[way, "python", "hook"].p50_ms,
            "limit": LIMITS[form] if what == "at once" else None,
        }
        for (way, form, what), one in found.items()
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Show what an agent waits for at each event.")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, and little more")
    options = parser.parse_args()
    machine = print_machine()
    rows = measure(3 if options.quick else options.rounds)
    print(
        f"\n{'started by':<12}{'form':<8}{'answered':<10}{'p50 ms':>8}{'best ms':>9}{'x least':>9}"
        f"{'x best':>8}{'x hook':>8}"
    )
    for row in rows:
        print(
            f"{row['way']:<12}{row['form']:<8}{row['answered']:<10}{row['p50_ms']:8.2f}{row['best_ms']:9.2f}"
            f"{row['x']:9.2f}{row['x_best']:8.2f}{row['x_hook']:8.2f}"
        )
    limits = ", ".join(f"{form} over {limit:g}" for form, limit in LIMITS.items())
    bad = [
        row
        for row in rows
        if (isinstance(row["limit"], float) and float(str(row["x"])) > row["limit"])
        or ((row["form"], row["answered"]) == ("c", "at once") and float(str(row["x_hook"])) > HOOK_LIMIT)
    ]
    print(f"bad, answered at once: {limits}; {len(bad)} of these are")
    print(f"written: {save('entries_quick' if options.quick else 'entries', {'machine': machine, 'rows': rows})}")
    return 1 if bad and not options.quick else 0


if __name__ == "__main__":
    sys.exit(main())
