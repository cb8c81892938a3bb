"""A language server for tests: `fake_server.py MODE [LOG]`.  It finds a BAD on a line, and misbehaves as MODE says.

Each start and each message that comes in is a line of JSON in LOG.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1]
LOG = sys.argv[2] if len(sys.argv) > 2 else os.devnull
REQUESTS = [
    ("workspace/configuration", {"items": [{"section": "a"}, {"section": "b"}]}),
    ("client/registerCapability", {"registrations": []}),
    ("window/workDoneProgress/create", {"token": 1}),
    ("workspace/diagnostic/refresh", None),
    ("window/unheardOf", {}),
]
texts: dict[str, str] = {}
pulls = 0


def log(record: object) -> None:
    with open(LOG, "a") as file:
        file.write(json.dumps(record) + "\n")


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(*messages: dict[str, object], **message: object) -> None:
    """Send messages by one write: whoever reads one has all of them."""
    bodies = [json.dumps({"jsonrpc": "2.0", **one}).encode() for one in (*messages, message)]
    write(b"".join(b"Content-Type: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body) for body in bodies))


def read() -> dict[str, Any]:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    if not length:
        sys.exit(0)
    return json.loads(sys.stdin.buffer.read(length))


def found(uri: str) -> list[dict[str, Any]]:
    lines = texts[uri].splitlines()
    return [
        {"message": "this is BAD", "severity": 1, "range": {"start": {"line": number, "character": line.index("BAD")}}}
        for number, line in enumerate(lines)
        if "BAD" in line
    ]


def publish(uri: str, version: int, **extra: object) -> None:
    stale = [{"message": "stale", "range": {"start": {"line": 0, "character": 0}}}]
    if MODE == "stale":
        send(
            method="textDocument/publishDiagnostics", params={"uri": uri, "version": version - 1, "diagnostics": stale}
        )
    blank = {"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}}
    params = {"uri": uri, "version": version, "diagnostics": found(uri), **extra}
    send(*[blank] * (MODE == "twice"), method="textDocument/publishDiagnostics", params=params)


def on_initialize(number: int) -> None:
    if MODE == "slow_start":
        time.sleep(0.4)
    if MODE == "refuse":
        return send(id=number, error={"code": -32603, "message": "no"})
    capabilities: dict[str, Any] = {"textDocumentSync": {"openClose": True, "change": 1, "save": True}}
    if MODE.startswith("pull") or MODE == "moody":
        capabilities["diagnosticProvider"] = {"identifier": "fake", "interFileDependencies": False}
    return send(id=number, result={"capabilities": capabilities})


def on_pull(number: int, uri: str) -> None:
    global pulls
    pulls += 1
    if MODE == "pull_later" and pulls < 3:
        send(id=number, error={"code": -32802, "message": "not yet", "data": {"retriggerRequest": True}})
    elif MODE == "pull_error":
        send(id=number, error={"code": -32603, "message": "oops"})
    else:
        send(id=number, result={"kind": "full", "items": found(uri)})


def on_text(uri: str, version: int, text: str) -> None:
    texts[uri] = text
    match MODE:
        case "die_on_open":
            os._exit(1)
        case "garbage":
            write(b"Traceback (most recent call last):\n" * 200)
        case "no_json":
            write(b"Content-Length: 5\r\n\r\n{{{{{")
        case "no_length":
            write(b"Content-Type: x\r\n\r\n")
        case "huge":
            write(b"Content-Length: 99999999999\r\n\r\n")
        case "wrong_shape":
            send(method="textDocument/publishDiagnostics", params={"uri": uri, "diagnostics": "many"})
        case "flood":
            while True:
                send(method="window/logMessage", params={"message": "x" * 10_000})
        case "hang":
            while True:
                time.sleep(60)
        case "closes_output":
            os.close(1)
            time.sleep(60)
        case "quiet":
            return
        case mode if mode.startswith("pull"):
            return
        case "asks":
            for number, (method, params) in enumerate(REQUESTS):
                send(id=f"q{number}", method=method, params=params)
            publish(uri, version)
        case _:
            publish(uri, version)


def main() -> None:
    log({"start": os.getpid(), "cwd": os.getcwd(), "ppid": os.getppid()})
    if MODE == "dies" or (MODE == "moody" and os.path.exists(LOG + ".moody")):
        sys.exit(3)
    if MODE == "helper":
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
        log({"helper": helper.pid})
    while True:
        if MODE == "never_answers":
            time.sleep(60)
        message = read()
        log(message)
        params = message.get("params") or {}
        match message.get("method"):
            case "initialize":
                on_initialize(message["id"])
            case "textDocument/didOpen":
                item = params["textDocument"]
                on_text(item["uri"], item["version"], item["text"])
            case "textDocument/didChange":
                item = params["textDocument"]
                on_text(item["uri"], item["version"], params["contentChanges"][0]["text"])
            case "textDocument/diagnostic":
                on_pull(message["id"], params["textDocument"]["uri"])
            case "shutdown":
                send(id=message["id"], result=None)
            case "exit":
                return
            case str() as method if "id" in message:
                send(id=message["id"], error={"code": -32601, "message": f"no {method}"})
            case _:
                continue


main()
