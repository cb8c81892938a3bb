"""The start-up time of the hook command compared with that of Python itself, interleaved in one run.

Bad would be: more than 1.5 times a bare `python -I -S -c pass`. Run: python bench/shim_start.py [RUNS]
"""

import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIM = ROOT / "supervisor" / "hooklatch" / "hosts" / "shim.py"
EVENT = ROOT / "tests" / "data" / "claude-code-2.1.330" / "PreToolUse.jsonl"
LIMIT = 1.5
DECISION = {"decision_id": "1", "event": "pre_tool_use", "verdict": "pass", "cause": "policy", "warnings": []}
ANSWER = json.dumps({"jsonrpc": "2.0", "id": 1, "result": DECISION}).encode() + b"\n"


def answer_for_ever(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as lines:
            if lines.readline():
                connection.sendall(ANSWER)


def milliseconds(command: list[str], text: bytes) -> float:
    start = time.perf_counter()
    subprocess.run(command, input=text, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1e3


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    text = EVENT.read_bytes().splitlines()[0]
    with tempfile.TemporaryDirectory() as folder:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"{folder}/agent.sock")
        listener.listen(16)
        threading.Thread(target=answer_for_ever, args=(listener,), daemon=True).start()
        python = [sys.executable, "-I", "-S"]
        shim = [*python, str(SHIM), "claude-code", "--event", "PreToolUse", "--runtime-dir"]
        commands = {
            "python -I -S -c pass": [*python, "-c", "pass"],
            "python -I -S -c 'import json, socket'": [*python, "-c", "import json, socket"],
            "shim, a fire answered": [*shim, folder],
            "shim, no daemon": [*shim, f"{folder}/none"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(runs + 3):
            for name, command in commands.items():
                took = milliseconds(command, text)
                if turn >= 3:  # the first turns fill caches, and compile the modules once
                    times[name].append(took)
        listener.close()
    medians = {name: statistics.median(series) for name, series in times.items()}
    bare = medians["python -I -S -c pass"]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"
    print(f"{machine}, Python {platform.python_version()}, {runs} runs, medians")
    for name, median in medians.items():
        print(f"  {median:7.2f} ms  {median / bare:5.2f} x  {name}")
    ratio = medians["shim, a fire answered"] / bare
    print(f"shim / bare start: {ratio:.2f} (bad: over {LIMIT})")
    results = ROOT / "bench" / "results"
    results.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine, "python": platform.python_version(), "runs": runs, "medians_ms": medians}
    (results / "shim_start.json").write_text(json.dumps({**record, "ratio": ratio, "limit": LIMIT}, indent=2) + "\n")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
