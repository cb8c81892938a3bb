"""The exit of a command as an answer, written (code, streams, one outcome per hook) and read.

0 passes, 2 refuses.  On a gate everything else that a hook answers is garbage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.dialects.dialect import NativeEvent
from hooklatch.dialects.verdict_mapping import MappedDecision, is_outcome_of, list_outcomes
from hooklatch_worker.author.verdicts import GarbageError

__all__ = ["format_message_text", "format_outcome_line", "format_output_value", "read_exit", "write_exit"]

BLOCK: Final = 2
WARN: Final = 1
MAX_COMMAND = 60  # characters of a command to show to people
CANNOT_START = frozenset({"load", "overload", "quarantined", "draining"})
CODES: Final[dict[str, int | None]] = {"pass": 0, "block": BLOCK, "warn": WARN, "error": None}
KEYS = frozenset(
    {"exitCode", "exit_code", "decision", "stdout", "stderr", "message", "truncated", "timedOut", "spawnError"}
)


def write_exit(mapped: MappedDecision) -> object:
    """Return exit code, streams and outcomes; only exit code 2 blocks, on any event."""
    given = [outcome for decision in mapped.decisions for outcome in list_outcomes(decision)]
    outcomes = [exit_outcome(outcome, mapped) for outcome in given if not outcome.get("unneeded")]
    notes = [note for decision in mapped.decisions for note in cast("list[str]", decision.get("warnings") or [])]
    is_noted = bool(notes) or any(outcome["decision"] != "pass" for outcome in outcomes)
    stdout = "" if mapped.is_refusal else write_output(mapped)
    verdict = "block" if mapped.is_refusal else "warn" if is_noted else "pass"
    # Standard output is read after exit code 0 only, so a warning must not suppress it.
    code = BLOCK if mapped.is_refusal else WARN if is_noted and not stdout else 0
    lines = [text for text in map(format_outcome_line, outcomes) if text]
    if mapped.is_refusal and not any(outcome["decision"] == "block" for outcome in outcomes):
        lines.append(f"hook [hooklatch/{mapped.name}]: block: {mapped.reason}")
    return {
        "event": mapped.name,
        "blocked": mapped.is_refusal,
        "decision": verdict,
        "exitCode": code,
        "message": "\n".join([*lines, *(note for note in notes if not any(note in line for line in lines))]),
        "stdout": stdout,
        "stderr": mapped.reason if mapped.is_refusal else "\n".join(notes),
        "outcomes": outcomes,
    }


def write_output(mapped: MappedDecision) -> str:
    answers = mapped.event.answers
    parts = [mapped.patch[key] for key in answers.patch.values() if key in mapped.patch]
    if any(not format_output_value(part).strip() for part in parts):
        lost = f"{mapped.dialect.name} reads empty output on {mapped.name} as no change"
        mapped.warnings.append(f"a change to empty was lost: {lost}")
    parts += [format_message_text(m) for m in mapped.outputs.get("inject", []) if "inject" in answers.outputs]
    parts += [mapped.outputs[output] for output in ("append", "resume") if output in mapped.outputs]
    return "\n".join(text for text in map(format_output_value, parts) if text)


def format_output_value(value: object) -> str:
    """Return a value as text: a text as it is, nothing for none, else JSON."""
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def format_message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, without its role."""
    content = message.get("content")
    if not isinstance(content, list):
        return format_output_value(content)
    blocks = cast("list[object]", content)
    texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)) or format_output_value(blocks)


def exit_outcome(outcome: Mapping[str, Any], mapped: MappedDecision) -> dict[str, Any]:
    verdict = exit_verdict(outcome, mapped)
    is_block = verdict == "block"
    code = outcome.get("exit_code")
    stderr = outcome.get("stderr") or ""
    table: dict[str, Any] = {
        "hook": {
            "scope": outcome.get("layer"),
            "event": mapped.name,
            "id": outcome.get("hook"),
            "command": outcome.get("command") or outcome.get("hook"),
        },
        "decision": verdict,
        "exitCode": BLOCK if is_block else CODES[verdict] if code is None else code,
        "stdout": outcome.get("stdout") or "",
        "stderr": mapped.reason if is_block else stderr or (outcome.get("message") or "" if verdict != "pass" else ""),
        "durationMs": outcome.get("duration_ms", 0),
    }
    return {**table, "truncated": True} if outcome.get("truncated") else table


def exit_verdict(outcome: Mapping[str, Any], mapped: MappedDecision) -> str:
    if mapped.is_refusal and is_outcome_of(outcome, mapped.decider) and not outcome.get("observed"):
        return "block"
    if outcome.get("outcome") == "answered":
        has_complained = outcome.get("verdict") in ("deny", "ask", "halt") or outcome.get("exit_code") not in (None, 0)
        return "warn" if has_complained else "pass"
    return "error" if outcome.get("cause") in CANNOT_START else "warn"


def format_outcome_line(outcome: Mapping[str, Any]) -> str:
    """Return the line about one hook for people; empty if it passed."""
    if outcome["decision"] == "pass":
        return ""
    hook = outcome["hook"]
    command = str(hook["command"])
    command = command if len(command) <= MAX_COMMAND else command[:MAX_COMMAND] + "…"
    detail = str(outcome["stderr"] or outcome["stdout"]).strip()
    cut = " (output truncated at 256KB)" if outcome.get("truncated") else ""
    return (
        f"hook [{hook['scope']}/{hook['event']}] {command}: {outcome['decision']}{': ' + detail if detail else ''}{cut}"
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
        or (decision is not None and decision not in tuple(CODES))
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
