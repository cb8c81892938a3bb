"""The guard as a script of its own, spawned for each call: what hook systems without a daemon do."""

import json
import sys

if __name__ == "__main__":
    payload = json.load(sys.stdin)
    if "push --force" in payload["tool_input"]["command"]:
        print("force pushes are not allowed here", file=sys.stderr)
        sys.exit(2)
