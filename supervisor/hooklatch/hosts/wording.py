"""Validates the daemon's decision and words its reasons.  Independent of the host."""

from hooklatch.hosts.light_json import dumps, is_list, is_object

__all__ = ["as_text", "explanation", "model_text", "problem_of", "text_at"]

VERDICTS = frozenset({"pass", "allow", "deny", "ask", "halt"})


def problem_of(decision: object, verdicts: frozenset[str] = VERDICTS) -> str:
    """Return why a decision cannot be rendered, or "" if it can."""
    if not is_object(decision):
        return "the decision is not an object"
    verdict = decision.get("verdict")
    if not isinstance(verdict, str) or verdict not in verdicts:
        return f"the decision has the verdict {verdict!r}"
    for key in ("cause", "reason", "layer", "hook", "append", "resume"):
        if not isinstance(decision.get(key), str | None):
            return f"the decision's {key} is not text"
    patch = decision.get("patch")
    if patch is not None and not is_object(patch):
        return "the decision's patch is not an object"
    if patch and "tool_input" in patch and not is_object(patch["tool_input"]):
        return "the decision's patch of tool_input is not an object"
    for key in ("inject", "warnings"):
        value = decision.get(key)
        if value is not None and not is_list(value):
            return f"the decision's {key} is not a list"
    return ""


def explanation(decision: dict[str, object]) -> str:
    """Return which hook decided and why, in one line for the model and the user."""
    reason, cause, hook = (text_at(decision, key) for key in ("reason", "cause", "hook"))
    who = "/".join([part for part in (text_at(decision, "layer"), hook) if part])
    if decision.get("verdict") in ("pass", "allow"):
        return reason
    if cause in ("", "policy"):
        by = f"hooklatch hook {who!r}" if who else "hooklatch"
        return f"{reason} ({by})" if reason else f"refused by {by}"
    identity = text_at(decision, "decision_id")
    record = f" (hooklatch log --decision {identity})" if identity else ""
    named = f"hook {who!r}: " if who not in reason else ""
    return f"hooklatch: {named}{reason or 'refused'} ({cause}){record}"


def model_text(decision: dict[str, object]) -> str:
    """Return the text for the model: injected messages, then appended text."""
    injected = decision.get("inject")
    parts = [_message_text(message) for message in injected] if is_list(injected) else []
    parts.append(text_at(decision, "append"))
    return "\n".join([part for part in parts if part])


def _message_text(message: object) -> str:
    content = message.get("content") if is_object(message) else message
    if is_list(content):
        return "\n".join(
            [as_text(block.get("text", block)) if is_object(block) else as_text(block) for block in content]
        )
    return "" if content is None else as_text(content)


def as_text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def text_at(decision: dict[str, object], key: str) -> str:
    value = decision.get(key)
    return value if isinstance(value, str) else ""
