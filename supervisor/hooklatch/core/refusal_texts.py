"""The words of a refusal, for each of its three readers: the log, the model and the person.

| reader | reads | made by |
|---|---|---|
| the log | what happened, with every name | `format_failure` |
| the model | that it did not run, and what to do now, which is never a command of its own to run | `tell_model` |
| the person | one line, where the host shows nothing of a refusal by itself | `tell_person` |

All that refuse have their words from here: the daemon, both forms of the forwarder, the clients.  Pure, and imports
little, since an agent waits for the forwarder.
"""

from hooklatch.core.failures import LOGGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Refused(Protocol):
        """A decision, of the daemon or of a client."""

        @property
        def event(self) -> str: ...
        @property
        def verdict(self) -> str: ...
        @property
        def cause(self) -> str | None: ...
        @property
        def reason(self) -> str | None: ...
        @property
        def instead(self) -> str | None: ...
        @property
        def layer(self) -> str | None: ...
        @property
        def hook(self) -> str | None: ...
        @property
        def name(self) -> str: ...


__all__ = [
    "ASKED", "DOCTOR", "LOGGED_LOCALLY", "NOTICE", "NOT_RUN", "PROMPTS", "RULE", "START", "STATUS", "TOLD",
    "UNJUDGED", "WITHHELD", "add_instead", "frame_for_model", "frame_for_person", "tell_model", "tell_person",
]  # fmt: skip

NOT_RUN = "Not run: "
WITHHELD = "withheld by hooklatch: "  # before the reason, in place of what a tool gave
# Appended to the first refusal of a session: whose rule it is, and that there may be another way.
RULE = ". This is a rule of your user: choose another way, or ask them."
INSTEAD = "Instead, run: "  # before the command that a guard names, which ends the text
ASKED = NOT_RUN + "it needs the user's yes, and "
START, STATUS, DOCTOR = "hooklatch serve --detach", "hooklatch status", "hooklatch doctor"
# For a session that begins without a daemon.
NOTICE = "hooklatch is not running, so prompts and tool calls will be refused. "
PROMPTS = ("user_prompt_submit", "user_prompt_expansion")  # what a person reads of them, no model reads
# A model that reads of a failure takes it for a judgement of its command otherwise, and tries others.
ADVICE = (
    "That is no judgement of this call. Do not try it again, in this form or another, and do not mend hooklatch "
    "yourself: stop, and tell the user to run: "
)

# By cause: what the log says of a failure where a client decides in place of the daemon.
LOGGED_LOCALLY = {
    "no_daemon": "the hook daemon did not decide (fail-safe deny)",
    "overload": "the hook daemon has no room for this request (fail-safe deny)",
    "protocol": "the hook daemon's answer cannot be used (fail-safe deny)",
    "payload": "the payload cannot be judged (fail-safe deny)",
}
# The same for model and person.  `{it}` and `{its}` stand for hooklatch, `{guard}` for its guard with a name.
UNJUDGED = "{it} could not judge it"
TOLD = {
    "crash": "{guard} failed",
    "timeout": "{guard} gave no answer in time",
    "overload": "{it} has no room for it now",
    "protocol": "{guard} gave an answer that cannot be used",
    "quarantined": "{guard} failed again and again, and is not called any more",
    "load": "{guard} could not be loaded",
    "payload": "{it} cannot read it",
    "unsettled": "{its} guards did not settle on one input",
    "unanswered": "it needs the user's yes",
    "draining": "{it} is shutting down",
    "no_daemon": "{it} is not running",
    "audit": "{it} could not record the decision",
}
# What a model is to do; after any other failure it is `ADVICE`, and a person has something to run.
ADVICE_ON = {
    "payload": "Make it smaller or plainer, or tell the user.",
    "unanswered": "Do not try it again: tell the user.",
}
# What is refused, by event; anything else is a call.
NOUNS = {
    "user_prompt_submit": "this prompt", "user_prompt_expansion": "this prompt", "tool_result": "this result",
    "pre_compact": "this compaction", "config_change": "this change of settings",
}  # fmt: skip


def frame_for_model(what: str, command: str, advice: str = "") -> "tuple[str, str]":
    """Return the text for the model before and after what is known in detail; `what` is like those of `TOLD`."""
    return NOT_RUN + what.format(it="hooklatch", its="hooklatch's"), f". {advice or ADVICE + command}"


def frame_for_person(what: str, command: str, event: str = "") -> "tuple[str, str]":
    """Return the text for the person before and after what is known in detail."""
    noun = NOUNS.get(event, "this call")
    return f"hooklatch refused {noun}: {what.format(it='it', its='its')}", f". Run: {command}" if command else ""


def add_instead(text: str, instead: "str | None") -> str:
    """Return the text of a refusal or a question for the model, with its next step if its guard names one."""
    return f"{text}\n{INSTEAD}{instead}" if instead else text


def tell_model(decision: "Refused") -> str:
    """Return a refusal or a question as the model reads it; never empty.

    A prompt is refused to the person, who reads this text in place of the model.
    """
    reason, who = decision.reason or "", decider(decision)
    if decision.cause in (None, "", "policy"):
        rule = RULE if reason.endswith(RULE) else ""
        reason = reason.removesuffix(RULE)
        return add_instead((f"{reason} ({who})" if reason else f"refused by {who}") + rule, decision.instead)
    what, why, command = read_failure(decision)
    if decision.event in PROMPTS:
        return tell_person(decision)
    before, after = frame_for_model(what, command, ADVICE_ON.get(decision.cause, ""))
    # It may name what a person can run, even to disable a guard.
    return before + (f": {why}" if why and "hooklatch " not in why else "") + after


def tell_person(decision: "Refused") -> str:
    """Return a refusal or a question in a line for the person, "" for another decision."""
    if decision.verdict not in ("deny", "ask", "halt"):
        return ""
    if decision.cause not in (None, "", "policy"):
        what, why, command = read_failure(decision)
        before, after = frame_for_person(what, "" if decision.cause in ADVICE_ON else command, decision.event)
        return before + (f": {why}" if why else "") + after
    reason = (decision.reason or "").removesuffix(RULE).removeprefix(NOT_RUN)
    guard = f" (guard {decision.name or decision.hook})" if decision.hook else ""
    guard += f". {INSTEAD}{decision.instead}" if decision.instead else ""
    if decision.verdict == "ask":
        return f"hooklatch asks: {reason or 'may this run?'}{guard}"
    return f"hooklatch refused {NOUNS.get(decision.event, 'this call')}{f': {reason}' if reason else ''}{guard}"


def decider(decision: "Refused") -> str:
    name = "/".join([part for part in (decision.layer, decision.hook) if part])
    return f"hooklatch hook {name!r}" if name else "hooklatch"


def read_failure(decision: "Refused") -> "tuple[str, str, str]":
    """Return what failed, in which way as far as that is known, and the command by which a person finds out more."""
    cause, why, hook = decision.cause or "", decision.reason or "", decision.name or decision.hook or ""
    for logged in (LOGGED.get(cause, cause), LOGGED_LOCALLY.get(cause, cause)):
        why = why.removeprefix(logged).removeprefix(": ")
    for name in (decision.name, f"{decision.layer}/{decision.hook}", hook):
        why = "" if why == name else why.removeprefix(f"{name}: ") if name else why
    what, command = TOLD.get(cause, UNJUDGED), START if cause == "no_daemon" else STATUS
    if "{guard}" not in what:
        return what, why, command
    if not hook:
        return UNJUDGED, why, command
    if all(letter.isalnum() or letter in "_-.:/@" for letter in hook) and hook.isascii():
        command = f"hooklatch hooks show {hook}"  # any other name needs a shell's quotes
    return what.replace("{guard}", '{its} guard "' + hook.replace("{", "{{").replace("}", "}}") + '"'), why, command
