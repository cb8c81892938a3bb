"""A client of a program that serves its tools: sends each message of the first argument, and waits for its answer."""

import json
import subprocess
import sys

messages, *argv = sys.argv[1:]
with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
    for message in json.loads(messages):
        program.stdin.write(json.dumps(message) + "\n")
        program.stdin.flush()
        while "id" in message and json.loads(program.stdout.readline()).get("id") != message["id"]:
            pass
    program.kill()
