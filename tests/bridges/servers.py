"""An MCP server without any library, for tests of the proxy: it writes down each line that reaches it."""

import json
import sys


def answer(message: dict, result: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
    sys.stdout.flush()


def main() -> None:
    with open(sys.argv[1], "a", buffering=1) as log:
        for line in sys.stdin:  # universal newlines: a carriage return ends a line here too
            log.write(json.dumps(line) + "\n")
            message = json.loads(line)
            word = message.get("params", {}).get("arguments", {}).get("word")
            if word == "die":
                sys.exit(7)
            if message.get("method") == "tools/call":
                is_error = word == "fail"
                text = f"said {word}"
                answer(message, {"content": [{"type": "text", "text": text}], "isError": is_error})
            elif "id" in message and "method" in message:
                answer(message, {"method": message["method"]})


if __name__ == "__main__":
    main()
