"""A parser of the JSON with which a command answers, in Claude Code's form or our own.

An answer that is not understood is garbage, never "no opinion": a misspelt key must not let a gate pass.  A part that
the event does not allow becomes the nearest stricter answer, or a warning that names the lost part.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias, cast

import msgspec

from hooklatch_worker.author import verdicts
from hooklatch_worker.author.ambiguity import find_ambiguity
from hooklatch_worker.author.verdicts import GarbageError, Verdict, Word
from hooklatch_worker.runtime.shell_forms import CLAUDE_NAMES

__all__ = ["TEXT_IS_CONTEXT", "AmbiguousError", "parse_command_output", "read_text"]

Table: TypeAlias = dict[str, Any]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
OWN_KEYS = frozenset(verdicts.Answer.__struct_fields__)
CLAUDE_KEYS = frozenset({"hookSpecificOutput", "decision", "reason", "continue", "stopReason", "systemMessage"})
SPECIFIC_KEYS = frozenset(
    {
        "hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext",
        "decision",
    }
)  # fmt: skip
# Claude Code acts on these keys, but no verdict can express them.
LOST_KEYS = frozenset(
    {
        "initialUserMessage", "sessionTitle", "watchPaths", "reloadSkills", "suppressOriginalPrompt", "retry",
        "updatedToolOutput", "updatedMCPToolOutput", "classifierContext", "updatedPermissions",
    }
)  # fmt: skip
IGNORED_KEYS = frozenset({"suppressOutput", "terminalSequence"})  # only about the terminal
TEXT_IS_CONTEXT = frozenset({"session_start", "user_prompt_submit"})  # Claude Code treats plain text as context here
DECISIONS: dict[object, Word] = {
    "allow": "allow",
    "deny": "deny",
    "ask": "ask",
    "defer": "ask",  # "let another one decide later": here that is the user
}
STRICTNESS: list[Word] = ["allow", "ask", "deny", "halt"]


class AmbiguousError(GarbageError):
    """An answer in which some parsers find a refusal and others do not."""


def parse_command_output(
    data: bytes, *, event: str, fails_closed: bool, allows: Collection[str]
) -> Verdict[Any] | None:
    """Parse the output of a command; no output and an empty object mean no opinion.

    `allows` holds the verdicts and outputs of the event, which determine how Claude Code's words are mapped.

    Raises:
        GarbageError: it is not one JSON object in one of the two forms.
    """
    text = data.removeprefix(BYTE_ORDER_MARK).strip()
    if not text:
        return None
    document = read_object(text)
    keys = document.keys()
    if not keys:
        return None
    if keys == {"reason"}:
        raise GarbageError("the answer has a reason, but no verdict")
    if keys <= OWN_KEYS:
        return read_own(text)
    if keys & (OWN_KEYS - {"reason"}):
        raise GarbageError(f"the answer mixes two forms, or has unknown keys: {', '.join(sorted(keys))}")
    return ClaudeAnswer(event, document, fails_closed=fails_closed, allows=allows).read()


def read_text(data: bytes) -> Verdict[Any] | None:
    """Return plain text as context for the model; None if it may be a malformed answer.

    Raises:
        GarbageError: it is not UTF-8.
    """
    try:
        text = data.removeprefix(BYTE_ORDER_MARK).decode().strip()
    except UnicodeDecodeError as error:
        raise GarbageError(f"the text is not UTF-8: {error}") from None
    return None if "{" in text or not text else verdicts.inject(make_context_message(text))


def read_object(text: bytes) -> Table:
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise GarbageError(f"the answer on standard output is not JSON: {error}") from None
    fault = find_ambiguity(text)
    if fault is not None:
        raise AmbiguousError(f"the answer on standard output could be read in two ways: {fault}")
    return require_object_at(document, "the answer")


def read_own(text: bytes) -> Verdict[Any]:
    answer = verdicts.decode_answer(text)
    decode = msgspec.json.decode
    return Verdict(
        verdict=answer.verdict,
        reason=answer.reason,
        instead=answer.instead,
        value=msgspec.UNSET if answer.value is None else decode(answer.value),
        patch=None if answer.patch is None else {key: decode(value) for key, value in answer.patch.items()},
        messages=tuple(answer.inject),
        texts=tuple(answer.append),
        resume_reason=answer.resume,
        warnings=tuple(answer.warnings),
        is_last=answer.last,
        context_changes=answer.context,
    )


class ClaudeAnswer:
    """A converter of one answer in Claude Code's form to a verdict."""

    def __init__(self, event: str, document: Table, *, fails_closed: bool, allows: Collection[str]) -> None:
        self.event = event
        self.document = document
        self.specific = require_object_at(document.get("hookSpecificOutput", {}), "hookSpecificOutput")
        self.fails_closed = fails_closed
        self.allows = allows
        self.words: list[tuple[Word, str]] = []
        self.rest: Verdict[Any] = Verdict()

    def read(self) -> Verdict[Any]:
        self.check_name()
        self.read_stop()
        self.read_block()
        self.read_permission()
        self.read_request()
        self.read_context()
        message = read_text_at(self.document, "systemMessage")
        if message:
            self.warn(message)
        self.check_keys()
        return self.verdict()

    def check_name(self) -> None:
        if "hookSpecificOutput" not in self.document:
            return
        known = (CLAUDE_NAMES.get(self.event, self.event), self.event)
        name = self.specific.get("hookEventName")
        if name not in known:
            raise GarbageError(f"hookEventName is {name!r}, but this was {known[0]!r}")

    def read_stop(self) -> None:
        continues = self.document.get("continue", True)
        if not isinstance(continues, bool):
            raise GarbageError(f"continue is true or false, not {continues!r}")
        reason = read_text_at(self.document, "stopReason")
        if continues:
            return
        if "halt" in self.allows:
            self.words.append(("halt", reason))
        elif self.fails_closed:
            self.words.append(("deny", reason))
        else:
            self.warn(f"{self.event} cannot end the run: {reason}")

    def read_block(self) -> None:
        decision, reason = self.document.get("decision"), read_text_at(self.document, "reason")
        if decision == "approve":
            if "allow" in self.allows:
                self.words.append(("allow", reason))
        elif decision == "block":
            self.block(reason)
        elif decision is not None:
            raise GarbageError(f"decision is 'block' or 'approve', not {decision!r}")

    def block(self, reason: str) -> None:
        if self.fails_closed:
            self.words.append(("deny", reason))
        elif "resume" in self.allows:
            self.rest = self.rest.resume(reason)
        elif "append" in self.allows:
            self.rest = self.rest.append(
                reason
            )  # the tool has already run: Claude Code also shows the model the reason
        else:
            self.warn(f"{self.event} cannot be blocked: {reason}")

    def read_permission(self) -> None:
        decision = self.specific.get("permissionDecision")
        reason = read_text_at(self.specific, "permissionDecisionReason")
        if decision is not None:
            self.add(decision, reason, "permissionDecision")
        if "updatedInput" in self.specific:
            self.rest = self.rest.amend(tool_input=require_object_at(self.specific["updatedInput"], "updatedInput"))

    def read_request(self) -> None:
        if "decision" not in self.specific:
            return
        decision = require_object_at(self.specific["decision"], "hookSpecificOutput.decision")
        self.add(decision.get("behavior"), read_text_at(decision, "message"), "behavior")
        if decision.get("behavior") == "deny" and decision.get("interrupt") is True and "halt" in self.allows:
            self.words.append(("halt", read_text_at(decision, "message")))
        if "updatedInput" in decision:
            self.rest = self.rest.amend(tool_input=require_object_at(decision["updatedInput"], "updatedInput"))
        if "updatedPermissions" in decision:
            self.rest = self.rest.amend(permissions=decision["updatedPermissions"])

    def add(self, decision: object, reason: str, key: str) -> None:
        word = DECISIONS.get(decision) if isinstance(decision, str) else None
        if word is None:
            raise GarbageError(f"{key} is one of {', '.join(map(str, DECISIONS))}, not {decision!r}")
        if not self.fails_closed:
            raise GarbageError(f"{key} has no meaning on {self.event}, which nothing can refuse")
        self.words.append((word, reason))

    def read_context(self) -> None:
        text = read_text_at(self.specific, "additionalContext")
        if not text:
            return
        if "append" in self.allows:
            self.rest = self.rest.append(text)
        elif "inject" in self.allows:
            self.rest = self.rest.inject(make_context_message(text))
        elif "resume" in self.allows:
            self.rest = self.rest.resume(text)  # at the end of a run, context for the model keeps it working
        else:
            self.warn(f"{self.event} takes no context for the model: {text}")

    def check_keys(self) -> None:
        unused = (self.document.keys() - CLAUDE_KEYS) | (self.specific.keys() - SPECIFIC_KEYS)
        lost = sorted(unused & LOST_KEYS)
        unknown = sorted(unused - LOST_KEYS - IGNORED_KEYS)
        if unknown and self.fails_closed and not self.refuses:
            raise GarbageError(f"the answer has unknown keys: {', '.join(unknown)}")
        if lost or unknown:
            self.warn(f"not supported by hooklatch, so not used: {', '.join([*lost, *unknown])}")

    @property
    def refuses(self) -> bool:
        return any(word in ("deny", "halt") for word, _ in self.words)

    def warn(self, text: str) -> None:
        self.rest = self.rest.warn(text)

    def verdict(self) -> Verdict[Any]:
        """Return the strictest word with the rest; a refusal drops patch and resume, as in Claude Code."""
        if not self.words:
            return self.rest
        word, reason = max(self.words, key=lambda pair: STRICTNESS.index(pair[0]))
        reason = reason or next((text for _, text in self.words if text), "")
        rest = self.rest
        if word in ("deny", "halt"):
            rest = msgspec.structs.replace(rest, patch=None, resume_reason=None)
        return msgspec.structs.replace(rest, verdict=word, reason=reason)


def make_context_message(text: str) -> Table:
    return {"role": "user", "content": text}


def require_object_at(value: object, where: str) -> Table:
    if not isinstance(value, dict):
        raise GarbageError(f"{where} is an object, not {type(value).__name__}")
    return cast("Table", value)


def read_text_at(table: Table, key: str) -> str:
    value = table.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise GarbageError(f"{key} is text, not {type(value).__name__}")
    return value
