"""The guard as a script, spawned for each call, as in hook systems without a daemon."""

import json
import sys

if __name__ == "__main__":
    payload = json.load(sys.stdin)
    if "push --force" in payload["tool_input"]["command"]:
        print("force pushes are not allowed here", file=sys.stderr)
        sys.exit(2)
