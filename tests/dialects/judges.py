"""Reads rendered answers as each system would, from what is known of it alone: may it run, and with which input?

Written without the tables and the renderer, so that both can be judged by it.
"""

from typing import Any

import msgspec


class Judgement(msgspec.Struct):
    """`word` is runs, asks or stops; `changes` are what the system would put in place, by its own key."""

    word: str
    changes: dict[str, Any] = {}


RUNS = Judgement("runs")


def of_ethos(event: str, value: Any) -> list[Judgement]:
    """The loop tests `if (error)`; all other keys of the merged object are taken over."""
    if value is None or "handled" in value:
        return [RUNS]
    if value.get("error"):
        return [Judgement("stops")]
    return [Judgement("runs", {key: part for key, part in value.items() if part is not None})]


def of_exathena(event: str, value: Any) -> list[Judgement]:
    """A host reads the returned tuple, or the structured form, and never both."""
    result, outputs = value["result"], value["outputs"]
    refusing = {"deny", "halt"} if event in ("PreToolUse", "PermissionRequest") else {"halt"}
    if result != "ok" and next(iter(result)) in refusing:
        one = Judgement("stops")
    else:
        one = Judgement("runs", result if result != "ok" and "transform" in result else {})
    if outputs["halt"] is not None:
        return [one, Judgement("stops")]
    transform = outputs["transform"]
    return [one, Judgement("runs", {} if transform is None else {"transform": transform})]


def of_reasonix(event: str, value: Any) -> list[Judgement]:
    """Exit 2 blocks; standard output counts after exit 0 alone."""
    by_code = Judgement("stops") if value["exitCode"] == 2 else RUNS
    by_decision = Judgement("stops") if value["decision"] == "block" else RUNS
    by_flag = Judgement("stops") if value["blocked"] else RUNS
    if event == "PostLLMCall" and value["exitCode"] == 0 and value["stdout"].strip():
        return [Judgement("runs", {"stdout": value["stdout"].strip()})] * 3
    return [by_code, by_decision, by_flag]


def of_radium(event: str, value: Any) -> list[Judgement]:
    """The first stop stops; of modified data the last value of a key wins, in transformations the first."""
    changes: dict[str, Any] = {}
    for result in value:
        if not result["should_continue"]:
            return [Judgement("stops")]
        for key, part in (result["modified_data"] or {}).items():
            if event != "ErrorTransformation" or key not in changes:
                changes[key] = part
    return [Judgement("runs", changes)]


def of_beam(event: str, value: Any) -> list[Judgement]:
    """The tuple's first word decides; what runs is read from the final context."""
    (word, carried), *others = value.items()
    assert not others
    if word == "ok":
        return [Judgement("runs", carried)]
    assert isinstance(carried, str), "a reason that is no binary counts as allow there"
    return [Judgement({"deny": "stops", "ask": "asks"}[word])]


JUDGES = {"ethos": of_ethos, "exathena": of_exathena, "reasonix": of_reasonix, "radium": of_radium, "beam": of_beam}
# Where each system reads a changed field from.
CHANGED_AT = {
    ("ethos", "tool_input"): "args",
    ("ethos", "prompt"): "prompt",
    ("ethos", "personality_id"): "personalityId",
    ("exathena", "prompt"): "transform",
    ("radium", "tool_input"): "modified_arguments",
    ("radium", "tool_response"): "modified_result",
    ("beam", "tool_input"): "tool_input",
    ("beam", "prompt"): "prompt",
    ("beam", "params"): "params",
    ("beam", "permissions"): "updated_permissions",
}
