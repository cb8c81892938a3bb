"""A plain hook script, as a person writes one: it misbehaves as the command that it is asked about says.

Run as `python plain_hook.py ANSWERS`, a file with the host's own forms of an answer; standard library only.
"""

import json
import os
import re
import signal
import sys
import time

ROW = re.compile(r"(\w+)\.ran")
WHY = "WHY"  # in each form, where the reason belongs
INPUT = "INPUT"  # in the form of a rewrite, where the new input belongs


def main() -> int:
    """Do what the row says; return the exit code."""
    with open(sys.argv[1], encoding="utf-8") as file:
        answers = json.load(file)
    document = json.load(sys.stdin)
    found = ROW.search(json.dumps(document))
    if found is None:
        return 0
    row, reason = found[1], f"refused-{found[1]}"
    deny = answers["deny"].replace(WHY, reason)
    match row:
        case "deny" | "one_of_two" | "subagent":
            print(deny)
        case "ask":
            print(answers["ask"].replace(WHY, reason))
        case "rewrite":
            print(answers["rewrite"].replace(INPUT, new_input(document)))
        case "raise":
            raise ValueError(reason)
        case "exit_2":
            return 2
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(4)  # some programs wait for it after they have given up on it
        case "rubbish":
            print(f"{reason}: this is no JSON")
        case "half":
            print(deny[: len(deny) // 2])
        case "noise":
            print("warning: a library says something")
            print(deny)
        case _:
            pass
    return 0


def new_input(document: dict[str, object]) -> str:
    """Return the tool's input with another file to touch."""
    given = next(document[key] for key in ("tool_input", "toolArgs", "args") if key in document)
    whole = given if isinstance(given, str) else json.dumps(given)
    return whole.replace("rewrite.ran", "rewritten.ran")


if __name__ == "__main__":
    sys.exit(main())
