"""The words for a decision, or for a hook's call in it, as a record, an answer or an announcement has them.

No field is trusted to be there, or of its type.
"""

from __future__ import annotations

from collections.abc import Mapping

from hooklatch.core.hooks.names import read_full_name

__all__ = ["describe_call", "has_failed", "name_result", "read_hook_name"]

NO_VERDICT = {"answered": "no verdict"}  # it had no opinion, or changed the payload alone
MARKS = {"observed": " observed", "reinvoked": " again", "unneeded": " unneeded"}


def has_failed(table: Mapping[str, object]) -> bool:
    """Return whether a decision, or a call, is by a failure and not by a policy."""
    return table.get("cause") not in (None, "", "policy")


def read_hook_name(table: Mapping[str, object]) -> str:
    """Return the full name of the hook of a decision or a call; empty if it has none."""
    texts = (table.get(key) for key in ("layer", "hook", "name"))
    return read_full_name(*(text if isinstance(text, str) else None for text in texts))


def name_result(call: Mapping[str, object]) -> str:
    """Return the verdict of a call, or how it ended."""
    ended = str(call.get("outcome") or "unknown")
    return str(call.get("verdict") or NO_VERDICT.get(ended, ended))


def describe_call(call: Mapping[str, object]) -> str:
    """Return which hook was called, with what result, and how long that took."""
    marks = "".join(word for mark, word in MARKS.items() if call.get(mark) is True)
    duration = call.get("duration_ms", 0.0)
    lasted = f", {duration:.1f} ms" if isinstance(duration, float | int) else ""
    failure = f" ({call.get('cause')}: {call.get('message', '')})" if has_failed(call) else ""
    return f"{read_hook_name(call)} {call.get('verdict') or call.get('outcome')}{failure}{marks}{lasted}"
