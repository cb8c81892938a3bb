"""The run of a hook that was taken over from a host's settings: it gets what the host would send, and is read alike.

    @hook("pre_tool_use", amends=True)
    def rtk(event):
        return run_adopted(event, AdoptedHook("claude-code", "PreToolUse", "rtk hook", matcher="Bash"))

It runs in a worker, before the guards.  What the host ignores is ignored here too: text that is not an answer, and most
exit codes.  A command that cannot start or is killed denies, and so does half of an answer, which may be a refusal.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.core.light_json import as_object
from hooklatch_worker import Event, Verdict
from hooklatch_worker.sandbox import children

__all__ = ["AdoptedHook", "read_adopted_answer", "run_adopted"]

ADDED: Final = frozenset({"tool_kind", "tool_args"})  # the keys that adapters add to a host's document
NAMES: Final = re.compile(r"[A-Za-z0-9_ ,|-]*")  # a matcher of only these is a list of names
CANNOT_START: Final = (126, 127)
MOST: Final = 600.0  # seconds, the maximum of a hook; the hook's own time ends its worker before
WORDS: Final = {
    "allow": "allow", "approve": "allow", "deny": "deny", "block": "deny", "ask": "ask", "defer": "ask",
    "ask_user": "ask",
}  # fmt: skip
WHERE: Final = {"copilot": "bash"}  # the shell by which a host runs a line, where it is not sh


class AdoptedHook(msgspec.Struct, frozen=True):
    """A hook as it was in a host's settings: `folder` is the project that it was for, "" for all."""

    host: str
    event: str
    command: str
    matcher: str = ""
    folder: str = ""


def run_adopted(event: Event, hook: AdoptedHook) -> Verdict[Any] | None:
    """Run a hook if it is for this event, and return its answer."""
    if event.host != hook.host or not is_hook_for(hook, event):
        return None
    folder = event.cwd if event.cwd and os.path.isdir(event.cwd) else None
    project = {f"{name}_PROJECT_DIR": hook.folder or folder or "" for name in ("CLAUDE", "GEMINI", "COPILOT")}
    done = children.run_child(
        [WHERE.get(hook.host, "sh"), "-c", hook.command], {**children.OWN.of(os.environ), **project}, cwd=folder,
        stdin=json.dumps(make_host_document(hook, event)).encode(), timeout=MOST,
    )  # fmt: skip
    answer = Verdict[Any]()
    error = done.stderr.decode(errors="replace").strip()
    if done.returncode < 0 or done.returncode in CANNOT_START:
        return answer.deny(f"{hook.command[:100]} did not run (exit code {done.returncode}): {error[:500]}")
    if done.returncode == 2 or (done.returncode != 0 and hook.host == "copilot"):
        return answer.deny(error[:4000] or f"{hook.command[:100]} ended with exit code {done.returncode}")
    if done.returncode != 0:
        return answer.warn(f"{hook.command[:100]} ended with exit code {done.returncode}: {error[:500]}")
    return read_adopted_answer(hook, event.payload.get("tool_input"), done.stdout)


def is_hook_for(hook: AdoptedHook, event: Event) -> bool:
    """Return whether a hook is for this tool and this folder; a pattern that cannot be read is for every tool."""
    if hook.folder and not f"{event.cwd}/".startswith(f"{hook.folder.rstrip('/')}/"):
        return False
    name = str(event.payload.get("tool_name") or "")
    if hook.matcher in ("", "*"):
        return True
    if NAMES.fullmatch(hook.matcher):
        return name in map(str.strip, re.split(r"[|,]", hook.matcher))
    try:
        return re.search(hook.matcher, name) is not None
    except re.error:
        return True


def make_host_document(hook: AdoptedHook, event: Event) -> dict[str, Any]:
    """Return the document that the host itself would have sent, with the input as earlier hooks have changed it."""
    document = {key: value for key, value in event.payload.items() if key not in ADDED}
    if "toolArgs" in document:  # Copilot's own names
        changed = document.pop("tool_input", document["toolArgs"])
        document.pop("tool_name", None)
        document["toolArgs"] = json.dumps(changed) if isinstance(document["toolArgs"], str) else changed
    return document


def read_adopted_answer(hook: AdoptedHook, tool_input: object, stdout: bytes) -> Verdict[Any] | None:
    """Return what a host reads in the output of a hook."""
    text = stdout.decode(errors="replace").strip()
    document = find_document(text)
    if document is None:
        return Verdict[Any]().deny(f"half an answer of {hook.command[:100]}: {text[:200]}") if text[:1] == "{" else None
    inner = as_object(document.get("hookSpecificOutput"))
    nested = as_object(inner.get("decision"))
    answer = Verdict[Any]()
    reason = first_text(
        (inner, "permissionDecisionReason"), (document, "permissionDecisionReason"), (nested, "message"),
        (document, "reason"), (document, "stopReason"), (document, "user_message"), (document, "agent_message"),
    )  # fmt: skip
    given = first_text(
        (inner, "permissionDecision"), (document, "permissionDecision"), (nested, "behavior"), (document, "behavior"),
        (document, "permission"), (document, "decision"),
    )  # fmt: skip
    word = WORDS.get(given, "deny") if given else ""
    if document.get("continue") is False:
        return answer.halt(reason) if hook.host in ("claude-code", "gemini") else answer.deny(reason or "it said so")
    if word == "deny":
        return answer.deny(reason or f"{hook.command[:100]} refused")
    changes = (inner.get("updatedInput"), inner.get("tool_input"), document.get("modifiedArgs"),
               document.get("updated_input"), nested.get("updatedInput"))  # fmt: skip
    changed = next((cast("dict[str, Any]", change) for change in changes if isinstance(change, dict)), None)
    if changed is not None:
        # Gemini CLI puts a changed input over the old one; the others replace it.
        kept = as_object(tool_input) if hook.host == "gemini" else {}
        answer = answer.amend(tool_input={**kept, **changed})
    if word == "ask":
        answer = answer.ask(reason or f"{hook.command[:100]} asks")
    elif word == "allow" and hook.host != "codex":  # Codex takes an allow only as part of a change
        answer = answer.allow(reason)
    if context := first_text((inner, "additionalContext"), (document, "additionalContext")):
        answer = answer.inject({"role": "user", "content": context})
    if message := first_text((document, "systemMessage")):
        answer = answer.warn(message)
    return answer


def find_document(text: str) -> dict[str, Any] | None:
    """Return the answer in a text: all of it, or its last line."""
    for part in (text, text.rpartition("\n")[2]):
        try:
            value: object = json.loads(part)
        except ValueError:
            continue
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return None


def first_text(*places: tuple[Mapping[str, Any], str]) -> str:
    found: Iterable[object] = (table.get(key) for table, key in places)
    return next((value for value in found if isinstance(value, str) and value), "")
