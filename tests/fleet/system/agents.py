"""The agents of one host, as a process of their own: fire gates without end, and write down what they are told.

    agents.py HOST SOCKET HISTORY

One connection for each gate, in bare JSON; a gate that no daemon answers is denied here, as hooklatch's own clients do.
Ends, after the answer that it waits for, with the end of its input.  Judges no answer.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from fleet.system.bundles import FORBIDDEN, number_of
from fleet.system.history import Answered, Pen, Sent, now
from hooklatch import Decision

PACE = (0.02, 0.12)  # seconds between two gates
LONELY_PACE = 0.1  # after one that no daemon saw
PATIENCE = 30.0  # seconds; the budget of each gate is less


def fire(host: str, path: str, pen: Pen, op: str, *, is_forbidden: bool) -> bool:
    """Fire one gate; return whether a daemon answered."""
    command = f"{FORBIDDEN if is_forbidden else 'look'} {op}"
    payload = {"tool_name": "Bash", "tool_input": {"command": command}}
    params = {"event": "pre_tool_use", "call_id": op, "payload": payload}
    pen.write(Sent(op, host, now(), is_forbidden))
    answer = asked(path, msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "fire", "params": params}))
    if answer is None:
        pen.write(Answered(op, host, now(), "deny", "no_daemon", is_local=True))
        return False
    guards = [number_of(one.hook) for one in answer.outcomes if one.outcome == "answered"]
    numbers = [number for number in guards if number is not None]
    pen.write(Answered(op, host, now(), answer.verdict, answer.cause, answer.decision_id, numbers))
    return True


def asked(path: str, line: bytes) -> Decision | None:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(path)
            connection.sendall(line + b"\n")
            with connection.makefile("rb") as answers:
                answer = json.loads(answers.readline())
        return msgspec.convert(answer["result"], Decision)
    except (OSError, ValueError, KeyError):
        return None


def main() -> None:
    host, path, history = sys.argv[1:]
    pen = Pen(history)
    end_of_input = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), end_of_input.set()), daemon=True).start()
    count = 0
    while not end_of_input.is_set():
        count += 1
        was_answered = fire(host, path, pen, f"{host}-{count}", is_forbidden=random.random() < 0.3)
        end_of_input.wait(random.uniform(*PACE) if was_answered else LONELY_PACE)


if __name__ == "__main__":
    main()
