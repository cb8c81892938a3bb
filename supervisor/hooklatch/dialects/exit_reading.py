"""A reader of the exit of a command as an answer: 0 passes, 2 refuses; on a gate everything else is garbage."""

from __future__ import annotations

from typing import Any, cast

from hooklatch.dialects.dialect import NativeEvent
from hooklatch.dialects.exits import BLOCK
from hooklatch_worker.author.verdicts import GarbageError

__all__ = ["read_exit"]

WORDS = ("pass", "block", "warn", "error")
KEYS = frozenset(
    {"exitCode", "exit_code", "decision", "stdout", "stderr", "message", "truncated", "timedOut", "spawnError"}
)


def read_exit(event: NativeEvent, name: str, answer: object) -> dict[str, Any]:
    """Convert an exit code, or an object with exitCode or decision, and the output streams.

    Raises:
        GarbageError: it is neither, or the command failed on a gate.
    """
    exit_table = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {"exitCode": answer}
    code = exit_table.get("exitCode", exit_table.get("exit_code"))
    decision = exit_table.get("decision")
    has_failed = (
        bool(exit_table.get("timedOut")) or exit_table.get("spawnError") not in (None, False, "") or decision == "error"
    )
    is_unreadable = (
        bool(exit_table.keys() - KEYS)
        or (code is None and decision is None and not has_failed)
        or (code is not None and (isinstance(code, bool) or not isinstance(code, int)))
        or (decision is not None and decision not in WORDS)
    )
    if is_unreadable:
        raise GarbageError(
            f"an answer on {name} is an exit code, or an object with exitCode or decision, not {answer!r}"
        )
    text = find_first_text(exit_table, "stderr", "message", "stdout")
    is_gate = event.feeds[0].fails_closed
    if code == BLOCK or decision == "block":
        return {"verdict": "deny", "reason": text} if is_gate else {"warnings": [text or f"a hook on {name} exited 2"]}
    if has_failed or code not in (None, 0) or decision == "warn":
        # A runner also reports "warn" for a killed or broken guard, with its code: only the bare word is a warning.
        if is_gate and (has_failed or code not in (None, 0)):
            raise GarbageError(f"the hook on {name} failed: {text or f'exit {code}'}")
        return {"warnings": [text or f"a hook on {name} {'failed' if code is None else f'exited {code}'}"]}
    return read_output(event, name, exit_table)


def find_first_text(table: dict[str, Any], *keys: str) -> str:
    texts = (table.get(key) for key in keys)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")


def read_output(event: NativeEvent, name: str, table: dict[str, Any]) -> dict[str, Any]:
    text, answers = find_first_text(table, "stdout"), event.answers
    if not text or not (answers.patch or answers.outputs):
        return {}
    if table.get("truncated"):
        raise GarbageError(f"the output on {name} was cut off")
    if answers.patch:
        return {"patch": {next(iter(answers.patch)): text}}
    output = next(iter(answers.outputs))
    return {output: [{"role": "system", "content": text}] if output == "inject" else text}
