"""The texts of a refusal: what model and person read of each cause, written down a second time."""

from __future__ import annotations

import re
from typing import Any, get_args

from hooklatch.core.failures import format_failure
from hooklatch.core.messages import Cause
from hooklatch.core.refusal_texts import ASKED, RULE, tell_model, tell_person
from support.native import decided
from support.tables import table

MINE: dict[str, Any] = {"layer": "global", "hook": "mine", "event": "pre_tool_use"}
ADVICE = (
    ". That is no judgement of this call. Do not try it again, in this form or another, and do not mend hooklatch "
    "yourself: stop, and tell the user to run: "
)
CAUSES = [cause for cause in get_args(Cause) if cause != "policy"]


def failed(cause: str, message: str = "", **more: Any) -> Any:
    known = {**MINE, **more}
    name = f"{known['layer']}/{known['hook']}" if known["hook"] else ""
    return decided("deny", cause=cause, reason=format_failure(cause, message, name), **known)


SHOW = "hooklatch hooks show mine"
FAILURES: list[tuple[str, str, str, str]] = [
    ("crash", "guard \"mine\" failed: KeyError: 'cmd' (mine.py:9)", "KeyError: 'cmd' (mine.py:9)", SHOW),
    ("timeout", 'guard "mine" gave no answer in time: 2 s passed', "2 s passed", SHOW),
    ("protocol", 'guard "mine" gave an answer that cannot be used: a bool', "a bool", SHOW),
    ("quarantined", 'guard "mine" failed again and again, and is not called any more: 5 crashes', "5 crashes", SHOW),
    ("load", 'guard "mine" could not be loaded: no module x', "no module x", SHOW),
    ("unsettled", "guards did not settle on one input: twice", "twice", "hooklatch status"),
]


@table(("cause", "what", "message", "command"), FAILURES)
def test_a_failure_of_a_guard_is_told_to_each_reader(cause: str, what: str, message: str, command: str) -> None:
    decision = failed(cause, message)

    assert tell_model(decision) == f"Not run: hooklatch's {what}{ADVICE}{command}"
    assert tell_person(decision) == f"hooklatch refused this call: its {what}. Run: {command}"


@table(
    ("given", "model", "person"),
    [
        (
            {"reason": "it overwrites"},
            "it overwrites (hooklatch hook 'global/mine')\nInstead, run: git push",
            "hooklatch refused this call: it overwrites (guard mine). Instead, run: git push",
        ),
        (
            {"reason": f"it overwrites{RULE}"},
            f"it overwrites (hooklatch hook 'global/mine'){RULE}\nInstead, run: git push",
            "hooklatch refused this call: it overwrites (guard mine). Instead, run: git push",
        ),
        (
            {"reason": ""},
            "refused by hooklatch hook 'global/mine'\nInstead, run: git push",
            "hooklatch refused this call (guard mine). Instead, run: git push",
        ),
    ],
)
def test_what_to_run_instead_ends_the_text_for_each_reader(given: dict[str, str], model: str, person: str) -> None:
    decision = decided("deny", cause="policy", instead="git push", **given, **MINE)

    assert (tell_model(decision), tell_person(decision)) == (model, person)


OWN: list[tuple[str, str, str]] = [
    ("overload", "has no room for it now", "hooklatch status"),
    ("draining", "is shutting down", "hooklatch status"),
    ("no_daemon", "is not running", "hooklatch serve --detach"),
    ("audit", "could not record the decision", "hooklatch status"),
    ("crash", "could not judge it", "hooklatch status"),
    ("abandoned", "could not judge it", "hooklatch status"),
]


@table(("cause", "what", "command"), OWN)
def test_a_failure_without_a_guard_is_hooklatchs_own(cause: str, what: str, command: str) -> None:
    decision = failed(cause, layer=None, hook=None)

    assert tell_model(decision) == f"Not run: hooklatch {what}{ADVICE}{command}"
    assert tell_person(decision) == f"hooklatch refused this call: it {what}. Run: {command}"


@table("cause", CAUSES)
def test_a_model_has_nothing_to_run_by_itself(cause: str) -> None:
    told = tell_model(failed(cause, "to get on: fix it, or: hooklatch hooks disable mine"))

    assert "disable" not in told, "it would let a model take the guard away"
    assert not re.search("hooklatch (hooks|status|serve|doctor|log)", told.partition("tell the user to run: ")[0])


def test_what_hooklatch_cannot_read_may_come_in_another_form() -> None:
    decision = failed("payload", "it has 9 MB", layer=None, hook=None)

    assert tell_model(decision) == (
        "Not run: hooklatch cannot read it: it has 9 MB. Make it smaller or plainer, or tell the user."
    )
    assert tell_person(decision) == "hooklatch refused this call: it cannot read it: it has 9 MB"


def test_a_question_that_nobody_answered_is_for_the_user() -> None:
    decision = failed("unanswered", "no person answered within 60 s (global/mine asked: push?)", hook=None, layer=None)

    assert tell_model(decision) == (
        "Not run: it needs the user's yes: no person answered within 60 s (global/mine asked: push?). "
        "Do not try it again: tell the user."
    )


def test_a_question_is_asked_and_what_cannot_be_asked_says_so() -> None:
    question = decided("ask", reason="push?", **MINE)
    unasked = decided("deny", cause="policy", reason=f"{ASKED}Codex cannot ask for it: push?", **MINE)

    assert tell_person(question) == "hooklatch asks: push? (guard mine)"
    assert tell_model(unasked) == (
        "Not run: it needs the user's yes, and Codex cannot ask for it: push? (hooklatch hook 'global/mine')"
    )
    assert tell_person(unasked) == (
        "hooklatch refused this call: it needs the user's yes, and Codex cannot ask for it: push? (guard mine)"
    )


def test_a_guards_own_refusal_stays_as_it_is_and_its_first_one_says_whose_rule_it_is() -> None:
    refusal = decided("deny", cause="policy", reason="not here", **MINE)
    first = decided("deny", cause="policy", reason=f"not here{RULE}", **MINE)

    assert tell_model(refusal) == "not here (hooklatch hook 'global/mine')"
    assert tell_model(first) == (
        "not here (hooklatch hook 'global/mine'). This is a rule of your user: choose another way, or ask them."
    )
    assert tell_person(first) == tell_person(refusal) == "hooklatch refused this call: not here (guard mine)"


@table("verdict", ["pass", "allow", "claim"])
def test_where_a_call_passes_a_person_is_told_nothing(verdict: str) -> None:
    assert tell_person(decided(verdict, reason="why", **MINE)) == ""


def test_a_prompt_is_refused_to_its_person() -> None:
    prompt = failed("no_daemon", "why", layer=None, hook=None, event="user_prompt_submit")

    assert tell_model(prompt) == tell_person(prompt)
    assert tell_person(prompt) == "hooklatch refused this prompt: it is not running: why. Run: hooklatch serve --detach"


def test_a_name_that_a_shell_would_take_apart_is_not_put_on_a_command_line() -> None:
    decision = failed("crash", "why", hook="a b;c", name="{x} $(y)")

    assert tell_person(decision).endswith("Run: hooklatch status")
    assert 'its guard "{x} $(y)" failed' in tell_person(decision)
