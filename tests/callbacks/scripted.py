"""The callback of every hook in a script: does what the payload says under its hook's id, and tells who it is.

On a real daemon this file is copied, with its version written into it; on fake workers `act` is called as it is.
"""

import os
import time

from hooklatch_worker import allow, amend, ask, claim, deny, halt

VERSION = 0
PATCHED = {"post_model": "response"}


def act(event, version=None):
    what = event.payload["do"].get(event.config["id"], "pass")
    name = f"{event.config['name']}@{VERSION if version is None else version}"
    key = PATCHED.get(event.event, "tool_input")
    if what == "mark":
        return amend(**{key: {**(event.payload.get(key) or {}), "marked": name}})
    if what == "bump":
        shown = event.payload.get(key) or {}
        return amend(**{key: {**shown, "n": shown.get("n", 0) + 1}})
    if what in ("allow", "deny", "ask", "halt", "claim"):
        return {"allow": allow, "deny": deny, "ask": ask, "halt": halt, "claim": claim}[what](name)
    if what == "raise":
        raise ValueError(name)
    if what == "garbage":
        return 5
    if what == "exit":
        os._exit(3)
    if what == "hang":
        time.sleep(60)
    if what == "hold":
        open(event.payload["go"] + ".began", "w").close()
        while not os.path.exists(event.payload["go"]):
            time.sleep(0.002)
    return None
