"""The canary: a call that `doctor` sends through a host's real settings, and that the daemon refuses by itself.

It can only ever refuse.  A document with the key is never fired, so no hook sees or answers it.  A host, a hook or an
agent that puts the key into a document gets a refusal, and nothing else follows from it.  The answer repeats a nonce,
which shows that it comes from a daemon: a forwarder that finds no daemon refuses too, but cannot know the nonce.
"""

from __future__ import annotations

import re
from typing import Final

from hooklatch.hosts.host import HookOutput, Host, HostEvent, make_denied_decision

__all__ = ["KEY", "refuse_canary", "format_canary_reason"]

KEY: Final = "hooklatch_canary"
NONCE: Final = re.compile(r"[0-9a-f]{32}")


def refuse_canary(host: Host, native: HostEvent) -> HookOutput | None:
    """Return the refusal of a canary; None for every other document, and where nothing can be refused."""
    if KEY not in native.document or not native.is_gate:
        return None
    denial = make_denied_decision(native.event, "policy", format_canary_reason(native.document[KEY]))
    return host.express(native, denial, None)


def format_canary_reason(nonce: object) -> str:
    """Return the reason of a canary's refusal; an invalid nonce is not repeated."""
    shown_nonce = nonce if isinstance(nonce, str) and NONCE.fullmatch(nonce) else "without a nonce"
    return f"hooklatch refuses the canary {shown_nonce}, as it has to"
